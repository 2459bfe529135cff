"""A published model of the Llama family on the learner's own parts of chapter 16: `headway chat`.

source.py     what a model on disk is
gguf.py       reads one from a GGUF file
hub_folder.py reads one from a folder as Hugging Face publishes it
opening.py    finds the weights, builds the model of the learner's parts, and fills it
inside.py     what the model computes on the way to its next token
chat.py       a conversation: messages, commands, answers
walk.py       `headway walk published`: from the file to an answer
labs.py       `headway measure published_...`: the measurements of lesson 16's labs
web/          the conversation on a page
"""
