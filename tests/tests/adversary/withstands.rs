//! Attacks that an earlier review tried and that were refused: they stay refused.
