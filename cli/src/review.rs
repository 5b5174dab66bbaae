//! Access reviews of an account's rights, by a user who may create them for others.

use anyhow::Context as _;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use weaver_tenant::Account;

/// Does the API server allow `account` that?
///
/// # Errors
/// If it cannot be asked, or does not let the user ask.
pub async fn allowed(client: &Client, account: &Account, what: ResourceAttributes) -> anyhow::Result<bool> {
    let answer = ask(client, account, what).await;
    answer.with_context(|| format!("asking about the rights of {account}"))
}

/// The same, and `false` where the user may not ask: granting a right again changes nothing.
pub async fn known(client: &Client, account: &Account, what: ResourceAttributes) -> anyhow::Result<bool> {
    match ask(client, account, what).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(false),
        answer => answer.with_context(|| format!("asking about the rights of {account}")),
    }
}

async fn ask(client: &Client, account: &Account, what: ResourceAttributes) -> kube::Result<bool> {
    let Account { namespace, name } = account;
    // The groups in every token of an account.
    let groups = vec![
        "system:serviceaccounts".into(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".into(),
    ];
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{name}")),
            groups: Some(groups),
            resource_attributes: Some(what),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
