"""What a database engineer reads first: minidb keeps its garbage with Sexton, demo tells the story."""
