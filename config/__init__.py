"""Settings of a Sexton process: `settings` is the model and the loader, `sexton.toml` names every knob."""
