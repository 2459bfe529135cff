"""A published model of the Llama family on the learner's own parts of chapter 16: `headway chat`.

    gguf.py       reads a GGUF file: metadata and tensors
    hub_folder.py reads a folder as Hugging Face publishes it
    opening.py    finds the weights, builds the model of the learner's parts, and fills it
    inside.py     what the model computed on the way to its last token
    chat.py       a conversation: messages, commands, answers
"""
