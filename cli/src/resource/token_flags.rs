//! A ServiceToken from flags. Pure but for the call of `create`. No token passes through here: only whose it shall be.

use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use serde_json::{Value, json};

use super::create::{self, Create, Flags};
use super::kind::Kind;

#[derive(Args)]
pub struct TokenFlags {
    /// Name of the ServiceToken, and of the Secret unless --secret-name is given
    #[arg(requires = "writer", requires = "token")]
    name: Option<String>,
    /// ServiceAccount of this namespace that writes the Secret
    #[arg(long, value_name = "ACCOUNT", requires = "name")]
    writer: Option<String>,
    /// Key of the Secret and the ServiceAccount of its token, with `audience=…` (repeatable) and `expires=SECONDS`
    #[arg(long, value_name = "KEY=ACCOUNT[,audience=NAME][,expires=SECONDS]", requires = "name")]
    token: Vec<Token>,
    /// Name of the Secret
    #[arg(long, value_name = "NAME", requires = "name")]
    secret_name: Option<String>,
    #[command(flatten)]
    create: Create,
}

/// One token that is asked for.
#[derive(Clone, Debug)]
struct Token(Value);

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let (key, account) =
            parts.next().and_then(|first| first.split_once('=')).ok_or("write KEY=ACCOUNT first")?;
        let mut token = json!({"key": key, "serviceAccount": {"name": account}});
        let mut audiences = Vec::new();
        for part in parts {
            match part.split_once('=') {
                Some(("audience", audience)) => audiences.push(audience),
                Some(("expires", seconds)) => {
                    let seconds: i64 = seconds
                        .parse()
                        .map_err(|_| format!("expires={seconds} is not a number of seconds"))?;
                    token["expirationSeconds"] = json!(seconds);
                }
                _ => return Err(format!("{part:?} is neither audience=NAME nor expires=SECONDS")),
            }
        }
        if !audiences.is_empty() {
            token["audiences"] = json!(audiences);
        }
        Ok(Self(token))
    }
}

impl TokenFlags {
    fn spec(&self) -> Value {
        let tokens: Vec<&Value> = self.token.iter().map(|Token(token)| token).collect();
        let mut spec = json!({"tokens": tokens});
        if let Some(writer) = &self.writer {
            spec["writer"] = json!({"serviceAccount": {"name": writer}});
        }
        if let Some(name) = &self.secret_name {
            spec["secretName"] = json!(name);
        }
        spec
    }
}

/// Creates what the flags or the file say.
pub async fn run(options: &TokenFlags) -> anyhow::Result<ExitCode> {
    let spec = |_: &str| options.spec();
    let flags = options.name.as_deref().map(|name| Flags { name, spec: &spec });
    create::run(Kind::Token, &options.create, flags, None).await
}

#[cfg(test)]
mod tests {
    use weaver_api::v1beta1::ServiceTokenSpec;
    use weaver_api::validate::validate_token;

    use super::*;

    #[test]
    fn a_token_is_its_key_its_account_and_what_else_is_said() {
        let token = |text: &str| text.parse::<Token>().map(|Token(token)| token);
        assert_eq!(token("a=b"), Ok(json!({"key": "a", "serviceAccount": {"name": "b"}})));
        let full = token("a=b,audience=vault,expires=900,audience=registry.test").unwrap();
        assert_eq!(full["audiences"], json!(["vault", "registry.test"]));
        assert_eq!(full["expirationSeconds"], 900);
        for (wrong, words) in [
            ("a", "KEY=ACCOUNT first"),
            ("", "KEY=ACCOUNT first"),
            ("a=b,expires=soon", "not a number of seconds"),
            ("a=b,lifetime=9", "neither audience=NAME nor expires=SECONDS"),
        ] {
            assert!(token(wrong).unwrap_err().contains(words), "{wrong}");
        }
    }

    #[test]
    fn what_breaks_a_rule_is_left_to_the_rules_which_name_the_field() {
        let token = Token::from_str("bad key=a,expires=1").unwrap().0;
        let spec = json!({"writer": {"serviceAccount": {"name": "a"}}, "tokens": [token]});
        let spec: ServiceTokenSpec = serde_json::from_value(spec).unwrap();
        let faults = validate_token(Some(&spec)).unwrap_err();
        let fields: Vec<&str> = faults.iter().map(weaver_api::validate::SpecFault::field).collect();
        assert_eq!(fields, ["spec.tokens[0].key", "spec.tokens[0].expirationSeconds"]);
    }
}
