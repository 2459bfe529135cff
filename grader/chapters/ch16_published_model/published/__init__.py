"""A published model of the Llama family on the learner's own parts of chapter 16: `headway chat`.

source.py     what a model on disk is
gguf.py       reads one from a GGUF file
hub_folder.py reads one from a folder as Hugging Face publishes it
opening.py    finds the weights, builds the model of the learner's parts, fills it, and looks inside it
chat.py       a conversation: messages, commands, answers
chat_page.py  what the page of `headway chat --web` can ask for
"""
