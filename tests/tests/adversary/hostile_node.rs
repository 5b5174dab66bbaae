//! A node with its kubelet's certificate, and what it or a tenant writes that an administrator reads on a terminal.
