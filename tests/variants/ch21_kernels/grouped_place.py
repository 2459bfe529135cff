# variant: band by band, counting down
def grouped_place(program, n_rows, n_columns, group):
    first = 0
    while True:
        rows = min(group, n_rows - first)
        if program < rows * n_columns:
            return first + program % rows, program // rows
        program -= rows * n_columns
        first += rows


# variant: the list of all tiles
def grouped_place(program, n_rows, n_columns, group):
    tiles = sorted(((r, c) for r in range(n_rows) for c in range(n_columns)), key=lambda t: (t[0] // group, t[1], t[0]))
    return tiles[program]


# variant: divmod, with the first row of the band
def grouped_place(program, n_rows, n_columns, group):
    band, place = divmod(program, group * n_columns)
    first = band * group
    column, row = divmod(place, min(n_rows, first + group) - first)
    return (first + row, column)
