"""Methods with a name, declared one by one; `gladstorm.methods` has them all.

Each is a function that composes parts, with `@declared(...)`: its source from `core/references.bib`, its price in
stochastic gradients and, where known, its complexity and assumptions.
"""
