"""Methods with a name, declared one by one; `gladstorm.methods` has them all."""
