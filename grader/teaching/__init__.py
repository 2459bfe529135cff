"""Material for learners: walks, pictures, the book, and measurements of the lessons' claims."""
