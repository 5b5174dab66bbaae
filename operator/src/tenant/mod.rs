//! What tenants copy, the rights that this needs, and what decides about it without any request. How the operator acts as them is `weaver-tenant`'s.

pub mod finalizers;
pub mod namespace;
pub mod object;
pub mod rights;
