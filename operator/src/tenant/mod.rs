//! What tenants copy, and the rights that this needs. How the operator acts as them is `weaver-tenant`'s.

pub mod object;
pub mod rights;
