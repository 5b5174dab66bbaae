//! A Pi, or the account behind ssh, that answers a laptop which fetches its kubeconfig.
