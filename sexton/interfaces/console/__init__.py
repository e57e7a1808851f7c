"""What operators see and do in a browser: pages on the server, which need no script to change something."""
