// `headway book` serves another file under this name, which shows your progress. The built book shows none.
