"""What a person or a program can ask of Sexton, each operation once. Doors read it: commands, routes, the console."""
