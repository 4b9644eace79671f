"""The multinomial logit: nouns -> utilities and choice probabilities -> the best assortment, exactly."""
