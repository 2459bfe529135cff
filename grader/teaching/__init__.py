"""What is shown to people who learn: walks, pictures, the book, and measurements of what the lessons claim."""
