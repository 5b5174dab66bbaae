//! A last judgement of a request, at the moment it is sent.

use std::sync::Arc;

use tower::BoxError;

/// Says whether a request may still be sent.
///
/// A tower layer that lets a write through puts one into the request's extensions. The request may then wait for a
/// connection, longer than what the layer saw remains true: a lease may end, or the process may be stopped and
/// continued. The pool asks just before the request goes out.
#[derive(Clone)]
pub struct SendGate(Arc<dyn Fn() -> Result<(), BoxError> + Send + Sync>);

impl SendGate {
    /// `admits` fails with the reason for which the request is not sent.
    pub fn new(admits: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(admits))
    }

    pub(super) fn admits(&self) -> Result<(), BoxError> {
        (self.0)()
    }
}
