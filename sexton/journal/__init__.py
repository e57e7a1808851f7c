"""What followers replay: one ordered journal for each instance, and what each of its entries does to whoever has it."""
