"""Grading a whole class: submissions in, a gradebook, marks and a report out.

    intake/       reads folders, archives and tables into one submission per person
    judging/      grades submissions: servers, what was judged before, points and late rules
    gradebook/    stores people, verdicts and corrections in SQLite
    report/       report.html and what it says
    exports/      grades.csv, feedback, Gradescope: the files of one run
    term/         course.toml, the roster, several assignments, marks of the term
    platforms/    files for Canvas, Moodle and Gradescope
    anonymous/    pseudonyms and their key
    similarity/   pairs of submissions whose code is alike
    handout/      the folder for learners, and the autograder for Gradescope

Start with `grade.py`, or with the walk "A zip → a row in grades.csv" in CONTRIBUTING.md.
"""
