//! What tests of `ServiceToken`s share: accounts that have agreed, and what the API server says of a token.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weaver_api::ownership::ALLOW_TOKENS_LABEL;
use weaver_api::v1beta1::ServiceToken;

use crate::tenant::ACCOUNT;
use crate::world::{World, eventually, eventually_within};

/// The API server continues trusting a token for ten seconds after it was revoked.
const REVOKED: Duration = Duration::from_secs(40);

/// Tokens of a Secret, by key.
pub type Tokens = BTreeMap<String, String>;

impl World {
    /// A namespace with an account `sync` that may write the Secret `name` there, and that the operator may act as.
    pub async fn writer(&self, short: &str, name: &str) -> String {
        let team = self.namespace(short).await;
        self.account(&team).await;
        self.allow_minting(&team).await;
        self.grant_writer(&team, name).await;
        team
    }

    /// Grants the tenant what writing that Secret needs.
    pub async fn grant_writer(&self, team: &str, name: &str) {
        let rules = json!([
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name],
             "verbs": ["get", "list", "update", "watch"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        ]);
        self.apply_role(team, &format!("writer-{name}"), rules, crate::tenant::subjects(team)).await;
    }

    /// An account of a workload: its owner agrees, and the operator may mint for it.
    pub async fn robot(&self, team: &str, name: &str) -> ServiceAccount {
        let (role, binding) = weaver_api::minting::grant(team, name);
        let (role, binding) = (json!(role), json!(binding));
        let mint = format!("mint-{name}");
        self.apply_role(team, &mint, role["rules"].clone(), binding["subjects"].clone()).await;
        self.bare_account(team, name, &json!({ALLOW_TOKENS_LABEL: "true"})).await
    }

    /// An account with these labels and no more.
    pub async fn bare_account(&self, team: &str, name: &str, labels: &Value) -> ServiceAccount {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": labels},
        });
        self.accounts(team)
            .create(&PostParams::default(), &serde_json::from_value(account).unwrap())
            .await
            .unwrap()
    }

    /// The accounts of a namespace.
    pub fn accounts(&self, team: &str) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), team)
    }

    /// The `ServiceToken`s of a namespace.
    pub fn service_tokens(&self, team: &str) -> Api<ServiceToken> {
        Api::namespaced(self.client.clone(), team)
    }

    /// Creates or changes the `ServiceToken` `name`: these tokens, as `(key, account)`, into the Secret of that name.
    pub async fn service_token(&self, team: &str, name: &str, tokens: &[(&str, &str)]) -> ServiceToken {
        self.apply_service_token(team, name, spec(tokens)).await
    }

    /// The same from a spec.
    pub async fn apply_service_token(&self, team: &str, name: &str, spec: Value) -> ServiceToken {
        let object = json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken",
            "metadata": {"name": name, "namespace": team}, "spec": spec,
        });
        let params = PatchParams::apply("a-person").force();
        self.service_tokens(team).patch(name, &params, &Patch::Apply(&object)).await.unwrap()
    }

    /// Waits until that condition is so, judged on the current generation.
    pub async fn token_condition(
        &self,
        team: &str,
        name: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> Condition {
        let tokens = self.service_tokens(team);
        eventually(&format!("ServiceToken {team}/{name} has {kind}={status} ({reason})"), || async {
            let token = tokens.get(name).await.unwrap();
            let conditions = token.status.unwrap_or_default().conditions;
            let found = conditions.iter().find(|condition| {
                condition.type_ == kind
                    && condition.status == status
                    && condition.reason == reason
                    && condition.observed_generation == token.metadata.generation
            });
            found.cloned().ok_or(conditions)
        })
        .await
    }

    /// Waits until it is Ready.
    pub async fn fresh(&self, team: &str, name: &str) -> Tokens {
        self.token_condition(team, name, "Ready", "True", "Fresh").await;
        self.tokens(team, name).await
    }

    /// Tokens that are now in the Secret; empty if there is none.
    pub async fn tokens(&self, team: &str, secret: &str) -> Tokens {
        let secret = self.secrets(team).get_opt(secret).await.unwrap();
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        data.into_iter().map(|(key, value)| (key, String::from_utf8(value.0).unwrap())).collect()
    }

    /// Waits until the tokens in the Secret satisfy the condition.
    pub async fn tokens_that(
        &self,
        team: &str,
        secret: &str,
        what: &str,
        are: impl Fn(&Tokens) -> bool,
    ) -> Tokens {
        eventually(&format!("the tokens of {team}/{secret} {what}"), || async {
            let tokens = self.tokens(team, secret).await;
            let keys: Vec<_> = tokens.keys().cloned().collect();
            if are(&tokens) { Ok(tokens) } else { Err(keys) }
        })
        .await
    }

    /// What the API server says of a token that is shown to `audience`, or to itself.
    pub async fn review(&self, token: &str, audience: Option<&str>) -> TokenReviewStatus {
        let audiences = audience.map(|audience| vec![audience.to_owned()]);
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = TokenReview { spec, ..TokenReview::default() };
        reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap()
    }

    /// The user whose token it is, by the API server.
    pub async fn user_of(&self, token: &str) -> Option<String> {
        let status = self.review(token, None).await;
        status.user.filter(|_| status.authenticated == Some(true))?.username
    }

    /// Waits until the API server does not take it any more.
    pub async fn is_revoked(&self, token: &str) {
        eventually_within(REVOKED, "the token is revoked", || async {
            let user = self.user_of(token).await;
            user.map_or(Ok(()), Err)
        })
        .await;
    }

    pub async fn remove_account(&self, team: &str, name: &str) {
        self.accounts(team).delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// The usual spec: these tokens, as `(key, account)`.
pub fn spec(tokens: &[(&str, &str)]) -> Value {
    let token = |(key, account): &(&str, &str)| json!({"key": key, "serviceAccount": {"name": account}});
    json!({
        "writer": {"serviceAccount": {"name": ACCOUNT}},
        "tokens": tokens.iter().map(token).collect::<Vec<_>>(),
    })
}

/// The name that a ServiceAccount has as a user.
pub fn user(team: &str, account: &str) -> String {
    format!("system:serviceaccount:{team}:{account}")
}
