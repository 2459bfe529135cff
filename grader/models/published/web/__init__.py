"""The page of `headway chat --web`: a conversation and the inside of the model. Server and look are those of play."""
