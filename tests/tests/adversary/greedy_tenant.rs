//! A tenant whose account has too few rights, or who writes without end: nobody else must pay for it.
