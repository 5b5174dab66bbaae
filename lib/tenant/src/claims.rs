//! The claims of a `ServiceAccount`'s token. They are read and not verified: the API server verifies a token
//! for those who are shown it; here they only say whether a stored token is still the wanted one.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// The claims. They contain no secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claims {
    /// The `ServiceAccount` that the token is of.
    pub account: ObjectIdentity,
    /// Namespace of the account, and of what it is bound to.
    pub namespace: String,
    /// For whom it is meant.
    pub audiences: Vec<String>,
    /// The Secret that it is bound to: it dies with it.
    pub secret: Option<ObjectIdentity>,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// End of its validity, the claim `exp`.
    pub expires_at: Timestamp,
}

/// An object by name and uid: one of the same name that was made later is another.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct ObjectIdentity {
    /// `metadata.name` of the object.
    pub name: String,
    /// `metadata.uid` of the object.
    pub uid: String,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    aud: OneOrMany,
    iat: i64,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Deserialize)]
struct Kubernetes {
    namespace: String,
    serviceaccount: ObjectIdentity,
    #[serde(default)]
    secret: Option<ObjectIdentity>,
}

/// RFC 7519 has an audience be a string or a list of strings.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// It is no token as the API server mints them. What it is instead is not repeated: it may be a secret of another kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotAToken;

impl fmt::Display for NotAToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not a ServiceAccount token")
    }
}

impl Claims {
    /// Reads a token.
    ///
    /// # Errors
    /// It is none.
    pub fn read(token: &str) -> Result<Self, NotAToken> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotAToken);
        };
        let decoded = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| NotAToken)?;
            if bytes.is_empty() { Err(NotAToken) } else { Ok(bytes) }
        };
        // One that was cut off is none, whatever is left of it.
        decoded(header)?;
        decoded(signature)?;
        let payload = decoded(payload)?;
        let Payload { aud, iat, exp, kubernetes } =
            serde_json::from_slice(&payload).map_err(|_| NotAToken)?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|_| NotAToken);
        let audiences = match aud {
            OneOrMany::One(audience) => vec![audience],
            OneOrMany::Many(audiences) => audiences,
        };
        let Kubernetes { namespace, serviceaccount: account, secret } = kubernetes;
        Ok(Self { account, namespace, audiences, secret, issued_at: time(iat)?, expires_at: time(exp)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// An unsigned token with these claims.
    fn token(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2lnbmVk", part(&json!({"alg": "RS256"})), part(claims))
    }

    fn claims(account: (&str, &str), secret: (&str, &str), times: (i64, i64)) -> Value {
        json!({
            "aud": ["https://kubernetes.default.svc"],
            "iat": times.0, "nbf": times.0, "exp": times.1,
            "iss": "https://kubernetes.default.svc", "jti": "x",
            "kubernetes.io": {
                "namespace": "team-a",
                "secret": {"name": secret.0, "uid": secret.1},
                "serviceaccount": {"name": account.0, "uid": account.1},
            },
            "sub": format!("system:serviceaccount:team-a:{}", account.0),
        })
    }

    #[test]
    fn a_token_as_the_api_server_mints_it() {
        let read = Claims::read(&token(&claims(("robot", "u-1"), ("tokens", "s-1"), (100, 3_700)))).unwrap();
        assert_eq!((read.account.name.as_str(), read.account.uid.as_str()), ("robot", "u-1"));
        assert_eq!(read.secret, Some(ObjectIdentity { name: "tokens".into(), uid: "s-1".into() }));
        assert_eq!(read.expires_at.duration_since(read.issued_at).as_secs(), 3_600);
        let mut unbound = claims(("robot", "u-1"), ("tokens", "s-1"), (100, 3_700));
        unbound["kubernetes.io"].as_object_mut().unwrap().remove("secret");
        unbound["aud"] = json!("one");
        let read = Claims::read(&token(&unbound)).unwrap();
        assert_eq!((read.secret, read.audiences), (None, vec!["one".to_owned()]));
    }

    #[test]
    fn what_is_no_token_is_not_repeated() {
        let no_claims = token(&json!({"sub": "x"}));
        let legacy = token(
            &json!({"iss": "kubernetes/serviceaccount", "kubernetes.io/serviceaccount/namespace": "a"}),
        );
        let whole = token(&claims(("robot", "u-1"), ("tokens", "s-1"), (100, 3_700)));
        let cut = whole.rsplit_once('.').unwrap().0.to_owned() + ".";
        assert_eq!(Claims::read(&cut), Err(NotAToken));
        assert_eq!(Claims::read(&format!("{whole}\n")), Err(NotAToken));
        for text in ["", "hunter2", "a.b.c", "a.b", "....", &no_claims, &legacy, &format!("{no_claims}.x")] {
            assert_eq!(Claims::read(text), Err(NotAToken), "{text}");
        }
        assert!(!format!("{:?} {NotAToken}", Claims::read("hunter2")).contains("hunter2"));
        let never = token(&claims(("a", "u"), ("s", "u"), (i64::MAX, i64::MAX)));
        assert_eq!(Claims::read(&never), Err(NotAToken), "no such time");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|[A-Za-z0-9_.-]{0,80}", payload in "\\PC*") {
            let _ = Claims::read(&text);
            let _ = Claims::read(&format!("a.{}.c", URL_SAFE_NO_PAD.encode(payload)));
        }
    }
}
