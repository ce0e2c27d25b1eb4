"""Five optimizers find a posterior with numpyro: python -m examples.posterior"""
