//! What the API server refuses.

use super::details::{Details, after, is_built_in, is_name, is_plain};
use crate::finding::{K3S_STATUS, Remedy};

/// The account of Config Weaver's own operator.
const OPERATOR: &str = "weaver-operator";

/// Where tokens of a ServiceAccount are asked for.
const TOKENS: &str = "serviceaccounts/token";

/// Namespace and name of the ServiceAccount that was refused.
fn account(line: &str) -> Option<(&str, &str)> {
    let user = after(line, "system:serviceaccount:", &['"', ' ', '\''])?;
    user.split_once(':')
}

/// A role that a binding names and that does not exist, as the API server adds it to a refusal.
struct AbsentRole<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> AbsentRole<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (_, note) = line.split_once("RBAC: ")?;
        let (before, rest) = note.split_once("role.rbac.authorization.k8s.io \"")?;
        let (name, rest) = rest.split_once('"')?;
        let kind = if before.ends_with("cluster") { "ClusterRole" } else { "Role" };
        rest.starts_with(" not found").then_some(Self { kind, name })
    }

    /// A role that is made by hand would hide that a part of an application is missing.
    fn details(&self, who: &str) -> Details {
        let Self { kind, name } = self;
        // `system:name` is a name of a role, too.
        let plain = Some(*name).filter(|name| is_plain(&name.replace(':', "."))).unwrap_or("NAME");
        Details::message(format!("{who} is bound to the {kind} `{name}`, which does not exist"))
            .advice(format!(
                "wait a minute if the application was just installed. Otherwise apply the manifest or the chart that has \
                 the {kind} again, and make none by hand; k3s applies those of its own parts when it restarts"
            ))
            .command(format!("kubectl get {}s -A | grep {plain}", kind.to_lowercase()))
            .command(format!("kubectl get rolebindings,clusterrolebindings -A -o wide | grep {plain}"))
            .command("sudo ls /var/lib/rancher/k3s/server/manifests")
    }
}

/// What may be granted by a line: who may `bind`, `escalate` or `impersonate` has all rights.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The object that a refusal names, where the right can be given for it alone. Who may have the tokens of all accounts
/// of a namespace has all of their rights.
fn one_object<'a>(line: &'a str, verb: &str, resource: &str, of_group: &str) -> Option<&'a str> {
    let kind = resource.split('/').next().unwrap_or(resource);
    after(line, &format!("{kind}{of_group} \""), &['"'])
        .filter(|one| line.contains("is forbidden") && is_name(one))
        .filter(|_| resource == TOKENS || ["get", "update", "patch", "delete"].contains(&verb))
}

pub(super) fn missing(line: &str) -> Option<Details> {
    // Who may not watch lists instead, and complains again where it may not do that either.
    if line.contains("falling back to the standard LIST semantics") {
        return None;
    }
    let (namespace, account) = account(line)?;
    // Kubernetes' own, whose rights the API server makes a moment after its first start.
    if namespace == "kube-system" && account.ends_with("-controller") {
        return None;
    }
    if let Some(role) = AbsentRole::read(line) {
        return Some(role.details(&format!("ServiceAccount {namespace}/{account}")));
    }
    let verb = after(line, "\" cannot ", &[' '])?;
    let resource = after(line, "resource \"", &['"'])?;
    let group = after(line, "in API group \"", &['"']).unwrap_or_default();
    let target = after(line, "in the namespace \"", &['"']);
    let scope = target.map_or_else(|| "in the whole cluster".to_owned(), |ns| format!("in namespace {ns}"));
    let of_group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let message = format!("ServiceAccount {namespace}/{account} may not {verb} {resource}{of_group} {scope}");
    let details = Details::message(message);
    // A line that was cut off grants nothing in the whole cluster.
    if target.is_none() && !line.contains("at the cluster scope") {
        return Some(details);
    }
    let are_names = [namespace, account].into_iter().chain(target).all(is_name);
    let is_resource = is_plain(resource) && (group.is_empty() || is_name(group));
    if !are_names || !is_resource || !VERBS.contains(&verb) {
        return Some(details);
    }
    let one = one_object(line, verb, resource, &of_group);
    if resource == TOKENS && one.is_none() {
        return Some(details);
    }
    let one = one.map_or_else(String::new, |one| format!(" --resource-name={one}"));
    // `resource.group/subresource`, as kubectl takes it.
    let (kind, rest) =
        resource.split_once('/').map_or((resource, String::new()), |(kind, sub)| (kind, format!("/{sub}")));
    let name = format!("{account}-{verb}-{kind}");
    let of = format!("--verb={verb} --resource={kind}{of_group}{rest}{one}");
    let to = format!("--serviceaccount={namespace}:{account}");
    let remedy =
        Remedy::new("an administrator of that namespace types, if the account is to have this right");
    Some(details.remedy(match target {
        Some(target) => remedy
            .command(format!("kubectl create role {name} -n {target} {of}"))
            .command(format!("kubectl create rolebinding {name} -n {target} --role={name} {to}")),
        None => remedy
            .command(format!("kubectl create clusterrole {namespace}-{name} {of}"))
            .command(format!(
                "kubectl create clusterrolebinding {namespace}-{name} --clusterrole={namespace}-{name} {to}"
            )),
    }))
}

/// The client library in C#, which prints the answer only where its program does. kubernetes-reflector#333
pub(super) fn of_csharp(line: &str) -> Option<Details> {
    line.contains("k8s.Autorest.HttpOperationException").then(|| {
        Details::message("the API server refuses a program a right, and this line does not say which")
            .advice(
                "apply the manifest or the chart of that program again, with its roles; the lines around this one have the object \
                 that it was at. The first command lists what its account may do",
            )
            .command("kubectl auth can-i --list --as=system:serviceaccount:NAMESPACE:ACCOUNT -n NAMESPACE")
            .command("kubectl get rolebindings,clusterrolebindings -A -o wide | grep ACCOUNT")
            .hint()
    })
}

/// A role of rights that its author does not have, in the words of today and of before 1.12. goauthentik/helm#292,
/// cert-manager#364
pub(super) fn grants_too_much(line: &str) -> Option<Details> {
    let (namespace, account) = account(line)?;
    let whom = if is_name(namespace) && is_name(account) {
        format!("system:serviceaccount:{namespace}:{account}")
    } else {
        "system:serviceaccount:NAMESPACE:ACCOUNT".to_owned()
    };
    Some(
        Details::message(format!(
            "ServiceAccount {namespace}/{account} is to {} with rights that it lacks itself",
            what_grants(line)
        ))
        .remedy(only_its_own().command(format!("kubectl auth can-i --list --as={whom}"))),
    )
}

pub(super) fn user_grants_too_much(line: &str) -> Option<Details> {
    let user =
        after(line, "is forbidden: user \"", &['"']).or_else(|| after(line, "user=&{", &[' ', '}']))?;
    (!user.starts_with("system:")).then(|| {
        let what = what_grants(line);
        Details::message(format!("the user {user} is to {what} with rights that it lacks itself"))
            .remedy(only_its_own().command("kubectl auth can-i --list"))
    })
}

fn what_grants(line: &str) -> &'static str {
    if line.contains("rolebindings.rbac.authorization.k8s.io \"") { "bind a role" } else { "make a role" }
}

fn only_its_own() -> Remedy {
    Remedy::new(
        "who makes or binds a role can grant only rights that it has; the line and those after it name the others. Have an \
         administrator apply the manifest, or have the chart make no roles, as by `rbac.create=false`, where an administrator has \
         made them",
    )
}

/// A pod is not made without its account; k3s makes the `default` of a namespace a moment after it.
pub(super) fn account_missing(line: &str) -> Option<Details> {
    // Controllers try again, and report it while a chart is being installed.
    if line.contains(".go:") || !line.contains(" not found") {
        return None;
    }
    let (namespace, account) = after(line, "looking up service account ", &[':', ' '])?.split_once('/')?;
    let are_names = is_name(namespace) && is_name(account);
    let (of, wanted) = if are_names { (namespace, account) } else { ("NAMESPACE", "ACCOUNT") };
    let details = Details::message(format!(
        "a pod is not made, because its ServiceAccount {namespace}/{account} does not exist"
    ));
    // An event is shown for an hour, also where the account followed a moment later, as while a chart is installed.
    let is_event = line.contains(" FailedCreate ");
    let details = if is_event { details.hint() } else { details };
    let first = if is_event { "if it is still missing, " } else { "" };
    Some(if account == "default" {
        details
            .hint()
            .advice(
                "try again: the account is made a moment after its namespace. If it stays away, the controllers of k3s do not run",
            )
            .command(format!("kubectl get serviceaccounts -n {of}"))
            .command(K3S_STATUS)
    } else {
        details
            .advice(format!(
                "{first}apply the manifest or the chart that has it again, into the same namespace, or make it; the pod follows by \
                 itself"
            ))
            .command(format!("kubectl get serviceaccounts -n {of}"))
            .command(format!("kubectl create serviceaccount {wanted} -n {of}"))
    })
}

pub(super) fn no_account_for_token(line: &str) -> Option<Details> {
    let (account, rest) = line.split_once("serviceaccounts \"")?.1.split_once('"')?;
    rest.starts_with(" not found").then(|| {
        Details::message(format!("no token: there is no ServiceAccount {account} in this namespace"))
            .advice("name its namespace by `-n`, or make the account")
            .command("kubectl get serviceaccounts -A")
            .command("kubectl create serviceaccount ACCOUNT -n NAMESPACE")
    })
}

pub(super) fn minting(line: &str) -> Option<Details> {
    // A kubelet asks for the tokens of its own pods, and again where the API server has not seen yet that they are its own.
    if line.contains("User \"system:node:") || line.contains("User \\\"system:node:") {
        return None;
    }
    // Any other program gets the right itself, as one to anything else. cert-manager#7112
    if account(line).is_some_and(|(_, account)| account != OPERATOR) {
        return None;
    }
    let wanted = after(line, "serviceaccounts \"", &['"']);
    let namespace = after(line, "in the namespace \"", &['"']);
    let (Some(wanted), Some(namespace)) = (wanted, namespace) else { return Some(Details::default()) };
    let details =
        Details::message(format!("tokens of ServiceAccount {namespace}/{wanted} may not be minted"));
    if !is_name(wanted) || !is_name(namespace) {
        return Some(details);
    }
    Some(
        details
            .advice(
                "for the operator, allow it for this one account; in a Role of your own: `create` on \
             `serviceaccounts/token` in API group \"\", which is the core group, with `resourceNames`",
            )
            .command(format!("weaver tenant allow {namespace} {wanted}")),
    )
}

/// A kind of ours that the API server does not know.
pub(super) fn our_kind(line: &str) -> Option<Details> {
    line.contains("weaver.example.com")
        .then(|| Details::message("the API server does not have this kind of Config Weaver"))
}

/// A kind of another program, or of a Kubernetes of before. hwameistor#551, apk8s/k3s-gitlab#1
pub(super) fn kind_missing(line: &str) -> Option<Details> {
    let kind = after(line, "no matches for kind \"", &['"'])?;
    let version = after(line, "in version \"", &['"'])?;
    let details =
        Details::message(format!("the API server does not have the kind {kind} in version {version}"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if group == "traefik.containo.us" {
        return Some(
            details
                .advice(
                    "Traefik 3, which k3s has since 1.32, has its kinds in another group: write `apiVersion: traefik.io/v1alpha1`, or \
                     take a newer release of the chart",
                )
                .command("kubectl api-resources | grep traefik"),
        );
    }
    if !is_built_in(group) {
        return Some(details);
    }
    let remedy = if line.contains("UPGRADE FAILED") {
        Remedy::new(
            "the release has objects in a version that Kubernetes no longer serves: have the plugin change what helm has on record, \
             and upgrade again to a chart that does not use it",
        )
        .command("helm plugin install https://github.com/helm/helm-mapkubeapis")
        .command("helm mapkubeapis RELEASE -n NAMESPACE")
    } else {
        Remedy::new(
            "Kubernetes serves it in another version, or no longer: write `apiVersion` as the command shows it, or take a newer \
             release of the chart or manifest",
        )
        .command("kubectl api-resources")
    };
    Some(details.remedy(remedy))
}

/// Of a user; a `ServiceAccount` is reported in more detail.
pub(super) fn of_a_user(line: &str) -> Option<Details> {
    let user = after(line, "is forbidden: User \"", &['"']).filter(|user| !user.starts_with("system:"))?;
    if let Some(role) = AbsentRole::read(line) {
        return Some(role.details(&format!("the user {user}")));
    }
    let (verb, resource) = (after(line, "\" cannot ", &[' '])?, after(line, "resource \"", &['"'])?);
    let whole = after(line, "in the namespace \"", &['"']);
    let within = whole.map_or_else(|| "in the whole cluster".to_owned(), |ns| format!("in namespace {ns}"));
    let details = Details::message(format!("the user {user} may not {verb} {resource} {within}"));
    let scope = whole.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
    let is_plain = [user, verb, resource].into_iter().all(is_plain) && whole.is_none_or(is_name);
    Some(if is_plain {
        details
            .advice("use an administrator's kubeconfig, or have an administrator grant the right; the command shows it")
            .command(format!("kubectl auth can-i {verb} {resource} {scope}"))
    } else {
        details
    })
}

pub(super) fn our_resource(line: &str) -> Option<Details> {
    let name = after(line, "a resource type \"", &['"'])?.to_ascii_lowercase();
    let is_ours = ["configmapsync", "servicetoken", "nodereport"].iter().any(|kind| name.starts_with(kind));
    is_ours.then(|| Details::message("the API server does not have this kind of Config Weaver"))
}
