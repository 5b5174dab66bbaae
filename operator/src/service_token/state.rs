//! What is remembered of a `ServiceToken` between reconciles.

use weaver_api::v1beta1::ServiceTokenStatus;

use super::fill::KnownSecret;
use crate::controller::kind::Common;
use crate::controller::rate_limit::RateLimit;
use crate::watch::Interest;

/// Reconciles that write or mint, at once and then each ten seconds: enough for any change of a spec, and no
/// storm where someone rewrites a Secret as often as it is written.
const BURST: f64 = 6.0;
const PER_SECOND: f64 = 0.1;

/// Memory of one resource.
pub struct TokenState {
    /// The watch on its Secret.
    pub watch: Option<Interest>,
    /// Last seen content of its Secret.
    pub known: Option<KnownSecret>,
    pub common: Common<ServiceTokenStatus>,
}

impl Default for TokenState {
    fn default() -> Self {
        Self { watch: None, known: None, common: Common::new(RateLimit::new(BURST, PER_SECOND)) }
    }
}
