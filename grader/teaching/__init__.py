"""What learners look at: walks, pictures, the book, and measurements of the lessons' claims."""
