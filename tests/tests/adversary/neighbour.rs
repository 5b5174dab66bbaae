//! A pod, or a local process, that reaches the ports of operator, webhook and agent.
