//! Somebody who may write our kinds in a namespace and may not impersonate its ServiceAccounts.
