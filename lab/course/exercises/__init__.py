"""One module per chapter: `chNN.EXERCISES` and, where the chapter has a quiz, `chNN.QUIZ`."""
