//! A tenant who wants to know, or to say, more than its account's rights allow: which namespaces exist, and events on them.
