"""Five optimizers find a posterior with numpyro: python -m evidence.posterior"""
