// What the learner has passed. `headway book` serves another file at this address; a book in a folder or on a web server shows no progress.
window.headwayProgress = { passed: [], chapters: {}, path: null };
