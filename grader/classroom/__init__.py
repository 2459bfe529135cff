"""Grading a whole class: submissions in, a gradebook, marks and a report out.

    grading.py         what one run does, from the submissions to the files
    grading_options.py the options of the last run, and the class that it graded
    intake/            reads folders, archives and tables into one submission per person
    judging/           grades submissions: servers, the instructor's rules, marks
    gradebook.py       people, verdicts and overrides in SQLite (gradebook_file.py)
    exports.py         grades.csv, feedback, Gradescope: the files of one run
    class_report.py    report.html and what it says; its templates are in pages/
    term/              course.toml, the roster, several assignments, marks of the term
    platforms.py       files for Canvas, Moodle and Gradescope
    anonymous.py       pseudonyms and their key
    similarity/        pairs of submissions whose code is alike
    handout/           the folder for learners, and the autograder for Gradescope
    sanitize.py        makes text from submissions safe to show

Start with `grading.py`, or with the walk from a zip to a row of grades.csv in CONTRIBUTING.md.
"""
