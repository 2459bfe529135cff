"""What shows learners the content: each part finds what a chapter has in grader/chapters/.

walks/              `headway walk`: guided tours with the numbers of this run
show/               `headway show`: a picture of one exercise, the learner's result beside the reference's
pictures.py         the lessons' pictures of computed numbers, which `headway stubs` draws
drawing.py          SVG: charts, heat maps, colours
terminal_drawing.py tables, grids, bars and curves as text
measurements.py     `headway measure`: the measured tables of the lessons
book/               `headway book`: the lessons as a site, with its pages in `pages/`
"""
