//! A ServiceToken from flags. Pure but for the call of `create`. No token passes through here: only its account.

use std::process::ExitCode;
use std::str::FromStr;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::create::{self, Create, ObjectFromFlags};
use super::kind::Kind;

#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("asked").args(["token", "generate"]).multiple(true)))]
pub struct TokenFlags {
    /// Name of the ServiceToken, and of the Secret unless --secret-name is given
    #[arg(requires = "writer", requires = "asked")]
    name: Option<String>,
    /// ServiceAccount of this namespace that writes the Secret
    #[arg(long, value_name = "ACCOUNT", requires = "name")]
    writer: Option<String>,
    /// Key of the Secret and the ServiceAccount of its token, with `audience=…` (repeatable) and `expires=SECONDS`
    #[arg(long, value_name = "KEY=ACCOUNT[,audience=NAME][,expires=SECONDS]", requires = "name")]
    token: Vec<TokenFlag>,
    /// How many accounts to make, and their name as a template such as bot-{{padded}}, with `key=TEMPLATE`,
    /// `audience=…` (repeatable), `label=KEY=TEMPLATE` (repeatable) and `expires=SECONDS`
    #[arg(
        long,
        value_name = "COUNT=NAME[,key=TEMPLATE][,audience=NAME][,label=KEY=TEMPLATE][,expires=SECONDS]",
        requires = "name"
    )]
    generate: Option<Generate>,
    /// Name of the Secret
    #[arg(long, value_name = "NAME", requires = "name")]
    secret_name: Option<String>,
    #[command(flatten)]
    create: Create,
}

#[derive(Clone, Debug)]
struct TokenFlag(Value);

impl FromStr for TokenFlag {
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
                Some(("expires", text)) => token["expirationSeconds"] = json!(seconds(text)?),
                _ => return Err(format!("{part:?} is neither audience=NAME nor expires=SECONDS")),
            }
        }
        if !audiences.is_empty() {
            token["audiences"] = json!(audiences);
        }
        Ok(Self(token))
    }
}

/// Requested accounts.
#[derive(Clone, Debug)]
struct Generate(Value);

impl FromStr for Generate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let (count, name) =
            parts.next().and_then(|first| first.split_once('=')).ok_or("write COUNT=NAME first")?;
        let count: i32 = count.parse().map_err(|_| format!("{count:?} is not a number of accounts"))?;
        let mut generate = json!({"count": count, "name": name});
        let mut audiences = Vec::new();
        for part in parts {
            match part.split_once('=') {
                Some(("key", key)) => generate["key"] = json!(key),
                Some(("audience", audience)) => audiences.push(audience),
                Some(("label", label)) => {
                    let (key, value) = label
                        .split_once('=')
                        .ok_or_else(|| format!("label={label} is not label=KEY=TEMPLATE"))?;
                    generate["labels"][key] = json!(value);
                }
                Some(("expires", text)) => generate["expirationSeconds"] = json!(seconds(text)?),
                _ => {
                    return Err(format!(
                        "{part:?} is not one of key=TEMPLATE, audience=NAME, label=KEY=TEMPLATE and expires=SECONDS"
                    ));
                }
            }
        }
        if !audiences.is_empty() {
            generate["audiences"] = json!(audiences);
        }
        Ok(Self(generate))
    }
}

fn seconds(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("expires={text} is not a number of seconds"))
}

impl TokenFlags {
    fn spec(&self) -> Value {
        let tokens: Vec<&Value> = self.token.iter().map(|TokenFlag(token)| token).collect();
        let mut spec = json!({});
        if !tokens.is_empty() {
            spec["tokens"] = json!(tokens);
        }
        if let Some(Generate(generate)) = &self.generate {
            spec["generate"] = generate.clone();
        }
        if let Some(writer) = &self.writer {
            spec["writer"] = json!({"serviceAccount": {"name": writer}});
        }
        if let Some(name) = &self.secret_name {
            spec["secretName"] = json!(name);
        }
        spec
    }
}

/// Creates the object of the flags or of the file.
pub async fn run(options: &TokenFlags) -> anyhow::Result<ExitCode> {
    let spec = |_: &str| options.spec();
    let flags = options.name.as_deref().map(|name| ObjectFromFlags { name, spec: &spec });
    create::run(Kind::ServiceToken, &options.create, flags, None).await
}

#[cfg(test)]
mod tests {
    use weaver_api::v1beta1::ServiceTokenSpec;
    use weaver_api::validate::validate_token;

    use super::*;

    #[test]
    fn a_token_is_its_key_its_account_and_what_else_is_said() {
        let token = |text: &str| text.parse::<TokenFlag>().map(|TokenFlag(token)| token);
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
    fn accounts_are_their_number_their_name_and_what_else_is_said() {
        let generate = |text: &str| text.parse::<Generate>().map(|Generate(generate)| generate);
        assert_eq!(generate("30=bot-{{n}}"), Ok(json!({"count": 30, "name": "bot-{{n}}"})));
        let full = generate("2=b{{n}},key={{padded}},audience=vault,label=user=u{{n}},expires=900").unwrap();
        let labels = json!({"user": "u{{n}}"});
        assert_eq!((&full["key"], &full["labels"]), (&json!("{{padded}}"), &labels));
        assert_eq!((&full["audiences"], &full["expirationSeconds"]), (&json!(["vault"]), &json!(900)));
        for (wrong, words) in [
            ("30", "COUNT=NAME first"),
            ("many=bot", "not a number of accounts"),
            ("3=bot,label=user", "not label=KEY=TEMPLATE"),
            ("3=bot,expires=soon", "not a number of seconds"),
            ("3=bot,start=9", "not one of key=TEMPLATE"),
        ] {
            assert!(generate(wrong).unwrap_err().contains(words), "{wrong}");
        }
    }

    #[test]
    fn what_breaks_a_rule_is_left_to_the_rules_which_name_the_field() {
        let token = TokenFlag::from_str("bad key=a,expires=1").unwrap().0;
        let spec = json!({"writer": {"serviceAccount": {"name": "a"}}, "tokens": [token]});
        let spec: ServiceTokenSpec = serde_json::from_value(spec).unwrap();
        let faults = validate_token(Some(&spec)).unwrap_err();
        let fields: Vec<&str> = faults.iter().map(weaver_api::validate::SpecFault::field).collect();
        assert_eq!(fields, ["spec.tokens[0].key", "spec.tokens[0].expirationSeconds"]);
    }
}
