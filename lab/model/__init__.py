"""The tiny LM: config, transformer, key/value cache, tokenizer, corpus, training, checkpoints."""
