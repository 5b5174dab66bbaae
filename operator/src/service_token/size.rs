//! Whether the tokens of a spec fit into one Secret, before one is minted. Pure.
//!
//! A token of the same API server is as long as the writer's own, but for its names, its audiences and the
//! Secret that it is bound to. A Secret may have 1 MiB; what this cannot foresee, the API server refuses.

use weaver_api::validate::{SpecFault, ValidServiceToken, ValidToken};
use weaver_tenant::TenantClient;

/// Most bytes of all values of a Secret.
const MOST: usize = 1 << 20;

/// The writer's own token, as a measure.
#[derive(Clone, Copy, Debug)]
pub struct Measure<'a> {
    /// Length of the token.
    pub length: usize,
    /// Name of the account whose token it is.
    pub account: &'a str,
    pub audiences: &'a [String],
}

impl<'a> Measure<'a> {
    /// `None` where the token is of an unknown form.
    pub fn of(tenant: &'a TenantClient) -> Option<Self> {
        let audiences = &tenant.claims.as_ref()?.audiences;
        Some(Self { length: tenant.token_length, account: &tenant.account.name, audiences })
    }

    /// Length of a token that is bound to the Secret `secret`.
    fn length_of(&self, token: &ValidToken, secret: &str) -> usize {
        let bound = r#""secret":{"name":"","uid":""},"#.len() + 36 + secret.len();
        let audiences = if token.audiences.is_empty() { self.audiences } else { &token.audiences };
        // The account's name is in the token twice, as a user and as an account.
        let more = bound + written(audiences) + 2 * token.account.len();
        let less = written(self.audiences) + 2 * self.account.len();
        // Three bytes are four characters; and each of the parts is rounded up.
        (self.length + more.saturating_mul(4).div_ceil(3) + 4).saturating_sub(less * 4 / 3)
    }
}

/// Bytes of a list as JSON, with the longest form of what may be escaped.
fn written(audiences: &[String]) -> usize {
    let one = |audience: &String| {
        let escaped =
            audience.chars().filter(|c| matches!(c, '<' | '>' | '&' | '"' | '\\') || c.is_control());
        audience.len() + 5 * escaped.count() + r#""","#.len()
    };
    audiences.iter().map(one).sum()
}

/// Checks that the tokens of `asked`, which are in the order in which they would be left out, fit into the Secret.
///
/// # Errors
/// With the count of generated accounts whose tokens would.
pub fn check(asked: &ValidServiceToken, measure: &Measure<'_>, secret: &str) -> Result<(), SpecFault> {
    let (mut bytes, mut fits) = (0_usize, 0_usize);
    for token in &asked.tokens {
        bytes = bytes.saturating_add(measure.length_of(token, secret));
        if bytes <= MOST && token.generated.is_some() {
            fits += 1;
        }
    }
    if bytes <= MOST {
        return Ok(());
    }
    let count = asked.tokens.iter().filter(|token| token.generated.is_some()).count();
    let fault = format!(
        "{count} is too many: the tokens have about {bytes} bytes, and a Secret holds {MOST}; at most {fits} fit, or more with \
         fewer and shorter spec.generate.audiences: use a second ServiceToken for the others"
    );
    Err(SpecFault::Broken { field: "spec.generate.count".into(), fault })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weaver_api::validate::validate_token;

    use super::*;

    fn asked(count: u16, audiences: usize) -> ValidServiceToken {
        let audiences: Vec<String> = (0..audiences).map(|n| format!("{n:0253}")).collect();
        let spec = json!({
            "writer": {"serviceAccount": {"name": "writer"}},
            "generate": {"count": count, "name": "bot-{{n}}", "audiences": audiences},
        });
        let spec = serde_json::from_value(spec).unwrap();
        validate_token(Some(&spec)).unwrap().with_generated("team-a/bots").unwrap().0
    }

    #[test]
    fn tokens_fit_or_it_is_said_how_many_would() {
        let own = ["https://kubernetes.default.svc.cluster.local".to_owned()];
        let measure = Measure { length: 900, account: "writer", audiences: &own };
        assert_eq!(check(&asked(500, 0), &measure, "tokens"), Ok(()));
        let fault = check(&asked(500, 16), &measure, "tokens").unwrap_err();
        assert_eq!(fault.field(), "spec.generate.count");
        let text = fault.to_string();
        let most: u16 = text.split("at most ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((100..300).contains(&most), "{text}");
        assert_eq!(check(&asked(most, 16), &measure, "tokens"), Ok(()));
        assert!(check(&asked(most + 1, 16), &measure, "tokens").is_err());
    }

    #[test]
    fn names_audiences_and_the_secret_count() {
        let own = ["api".to_owned()];
        let measure = Measure { length: 900, account: "writer", audiences: &own };
        let of = |asked: &ValidServiceToken, secret: &str| measure.length_of(&asked.tokens[0], secret);
        let plain = of(&asked(1, 0), "tokens");
        // What a token of the API server grows by where it is bound to a Secret: about 76 bytes of JSON.
        assert!((980..1_020).contains(&plain), "{plain}");
        assert!(of(&asked(1, 1), "tokens") > plain + 300);
        assert_eq!(of(&asked(1, 0), &"s".repeat(6 + 30)), plain + 40);
    }
}
