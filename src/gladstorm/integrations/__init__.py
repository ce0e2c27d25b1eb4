"""The methods inside other libraries; import them as gladstorm.lightning, gladstorm.transformers, gladstorm.numpyro."""
