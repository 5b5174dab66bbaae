//! What conversion webhook, installer and API server must agree on.

/// Where it is asked on a card: on the API server's own host.
pub const URL: &str = "https://127.0.0.1:9443/convert";

/// Where its certificates are on a card.
pub const DIRECTORY: &str = "/var/lib/weaver/webhook";

/// The file in it with the certificate and its key; the only one that the webhook reads.
pub const LEAF: &str = "leaf.pem";

/// `apiVersion` and `kind` of the one review that is asked and answered.
pub const REVIEW: (&str, &str) = ("apiextensions.k8s.io/v1", "ConversionReview");
