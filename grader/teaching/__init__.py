"""Material for learners, all of it computed by the learner's code or the reference when it is shown.

walks/          `headway walk`: guided tours with the numbers of this run
show/           `headway show`: a picture of one exercise, the learner's result beside the reference's
pictures.py     the lessons' pictures of computed numbers, which `headway stubs` draws
drawing/        SVG: charts, heat maps, colours
machines/       chapter 18's model on several ranks, counted for walks, pictures and measurements
measurements.py `headway measure`: the measured tables of the lessons, which modules of walks/ compute
book/           `headway book`: the lessons as a site, with its pages in `pages/`
corpora.py      small texts, from corpora.toml; `circuits.py`: weights that are set by hand
"""
