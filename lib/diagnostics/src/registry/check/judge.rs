//! What keeps k3s from pulling, by what was seen of a registry.

use super::{ImageAvailability, LONGEST, RegistryFacts, Reply, Sent, WantedImage, quoted_or};
use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity};
use crate::finding_text::quoted;
use crate::k3d::registry::ReachedFrom;
use crate::registry::api::{Fit, fit};
use crate::registry::configured::Credentials;
use crate::registry::{By, Registry};
use crate::serving::HandshakeOutcome;
use crate::shell;

/// What is wrong, the cause first.
pub fn judge(facts: &RegistryFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = match (&facts.is_here, facts.reply()) {
        (Err(why), _) => vec![not_resolved(facts, why)],
        (Ok(_), None) => vec![no_registry(facts)],
        (Ok(_), Some(("https", _))) => certificate(facts).into_iter().chain(http_in_vain(facts)).collect(),
        (Ok(_), Some(_)) => plain(facts).into_iter().collect(),
    };
    findings.extend(facts.reply().and_then(|(scheme, reply)| access(facts, scheme, reply)));
    findings.extend(facts.missing.iter().map(|repository| {
        let message = format!("{} has no repository `{repository}`", facts.registry);
        Finding::new(Code::ImageNotFound, message).remedy(look(facts))
    }));
    findings.extend(facts.image.as_ref().and_then(|wanted| image(facts, wanted)));
    findings
}

/// The command that shows what is there.
fn look(facts: &RegistryFacts) -> Remedy {
    Remedy::new(
        "compare the name with the repositories that exist; the output of the push shows the name that was used",
    )
    .command(format!("weaver registry check {}", facts.registry))
}

fn place(facts: &RegistryFacts, scheme: &str) -> Place {
    Place::file(format!("{scheme}://{}/v2/", facts.registry))
}

/// Where a container of this machine has it, if it is one.
fn by_container(facts: &RegistryFacts) -> Option<Remedy> {
    let (host, _) = facts.host();
    // The engine lists no ports of one that does not run.
    let is_here = facts.is_here == Ok(true);
    let may_be =
        facts.containers.iter().flatten().find(|one| !one.is_running && (one.name == host || is_here));
    if let Some(stopped) = may_be.filter(|_| facts.container().is_none()) {
        return Some(Remedy::new("start its container").command(format!(
            "{} start {}",
            stopped.engine,
            shell::quoted(&stopped.name)
        )));
    }
    if let Some((container, viewpoint)) = facts.container() {
        let nodes = container.in_nodes();
        let (ReachedFrom::Nodes, Some(here)) = (viewpoint, container.here()) else {
            return (viewpoint == ReachedFrom::Nodes).then(|| {
                Remedy::new(format!(
                    "{nodes} is its address in the networks of k3d only, where nodes pull from it; publish a port to push \
                     from this machine: create it again with `k3d registry create NAME --port 5111`"
                ))
            });
        };
        return Some(
            Remedy::new(format!(
                "{nodes} is its address in the networks of k3d: right in image names, and not on this machine; push to {here}"
            ))
            .command(format!("weaver registry check {here}")),
        );
    }
    // A name that only the network of k3d knows, with another port.
    let named = facts.containers.iter().flatten().find(|one| one.name == host && one.is_running)?;
    let here = named.here()?;
    Some(
        Remedy::new(format!(
            "{host} is a container: push to {here}, and write {} in image names",
            named.in_nodes()
        ))
        .command(format!("weaver registry check {here}")),
    )
}

fn not_resolved(facts: &RegistryFacts, why: &str) -> Finding {
    let (host, _) = facts.host();
    let remedy = by_container(facts).unwrap_or_else(|| {
        Remedy::new(format!(
            "correct the name, or make {host} resolvable: in the DNS server, or in /etc/hosts of each node and each \
            machine that pushes. The name of a k3d container resolves only inside its networks"
        ))
        .command(format!("getent hosts {}", shell::quoted(host)))
        .command("k3d registry list")
    });
    Finding::new(Code::RegistryUnreachable, format!("this machine cannot resolve {host}: {}", quoted_or(why)))
        .saw(Place::file(host), why)
        .remedy(remedy)
}

fn no_registry(facts: &RegistryFacts) -> Finding {
    let replies = [("https", facts.https.reply.as_ref()), ("http", facts.http.as_ref())];
    let said = |reply: &Result<&Reply, &String>| reply.map_or_else(|why| quoted_or(why), ToString::to_string);
    let is_silent = matches!(facts.https.outcome, HandshakeOutcome::Unreachable(_));
    let other = replies.iter().find_map(|(scheme, reply)| Some((*scheme, reply.ok()?)));
    let (message, remedy) = match (&facts.https.reply, other) {
        (Err(why), _) if !is_silent => (
            format!(
                "{} completes the TLS handshake, then does not respond: {}",
                facts.registry,
                quoted_or(why)
            ),
            "if it wants a certificate of its clients, name cert_file and key_file in registries.yaml; else read its log",
        ),
        (_, Some((_, reply))) if reply.location.is_some() => {
            let location = reply.location.as_deref().unwrap_or_default();
            let text = format!("{} redirects to another host: {}", facts.registry, quoted(location, LONGEST));
            (
                text,
                "use the host that it leads to in image names; containerd looks for images where their names say",
            )
        }
        (_, Some((_, reply))) if reply.status >= 500 => (
            format!("{} answers {} at /v2/", facts.registry, reply.status),
            "it is a proxy whose registry is down or still starting: read its log",
        ),
        (_, Some((_, reply))) => (
            format!("another server than a registry answers at {}: {} at /v2/", facts.registry, reply.status),
            "find the registry's own port",
        ),
        (_, None) => (
            format!("no registry answers at {}", facts.registry),
            "start it, correct the port, or open it in the firewall; a registry in a container needs a published port",
        ),
    };
    let remedy = by_container(facts)
        .unwrap_or_else(|| Remedy::new(remedy).command("k3d registry list").command("sudo ss -ltnp"));
    let finding = Finding::new(Code::RegistryUnreachable, message).remedy(remedy);
    replies.iter().fold(finding, |finding, seen| finding.saw(place(facts, seen.0), said(&seen.1)))
}

/// Of https: its certificate.
fn certificate(facts: &RegistryFacts) -> Option<Finding> {
    let (host, _) = facts.host();
    let registry = &facts.registry;
    let names = facts.https.served.join(", ");
    let trusted = facts
        .ca
        .as_ref()
        .map_or("a CA that this machine trusts".to_owned(), |file| format!("the CA in {file}"));
    let node_file = "/etc/rancher/k3s/registry-ca.crt";
    let (message, remedy) = match &facts.https.outcome {
        HandshakeOutcome::Proven | HandshakeOutcome::Unreachable(_) => return None,
        HandshakeOutcome::NotServed if names.is_empty() => (
            format!("the certificate of {registry} has no names"),
            Remedy::new(format!("make one with {host} as a subject alternative name: a common name alone is not read")),
        ),
        HandshakeOutcome::NotServed => (
            format!("the certificate of {registry} is for {names}, and not for {host}"),
            Remedy::new(format!("use one of these names in image names, or make a certificate that has {host} too")),
        ),
        HandshakeOutcome::Dates(why) => (
            format!("the certificate of {registry} is not valid at this date: {why}"),
            Remedy::new("compare the clocks of both machines first; then renew the certificate").command("timedatectl"),
        ),
        HandshakeOutcome::Untrusted(why) => (
            format!("the certificate of {registry} is not signed by {trusted}: {why}"),
            Remedy::new(format!(
                "copy the CA's certificate to each node as {node_file} and name it in registries.yaml; a certificate that \
                 signs itself is its own CA"
            ))
            .command(format!("weaver registry check {registry} --ca CA.crt"))
            .command(format!("weaver registry config {registry} --ca-file {node_file}")),
        ),
    };
    let finding = Finding::new(Code::RegistryCertificateUntrusted, message)
        .saw(place(facts, "https"), facts.https.to_string())
        .remedy(remedy);
    if facts.is_localhost() {
        // Images are pulled all the same.
        let finding = finding.milder(Severity::Warn);
        return Some(finding.saw(Place::file("containerd"), "does not verify the certificate of localhost"));
    }
    let Some((file, configured)) = &facts.configured else { return Some(finding) };
    if configured.is_unverified {
        let said = Place::file(file);
        // k3s pulls all the same.
        let finding = finding.milder(Severity::Warn);
        return Some(finding.saw(said, "insecure_skip_verify: its certificate is not verified"));
    }
    match &configured.ca_file {
        // Its own CA was not asked.
        Some(ca) if facts.ca.is_none() => {
            let remedy = Remedy::new(format!("check it with the CA file that nodes have: {ca}"))
                .command(format!("weaver registry check {registry} --ca CA.crt"));
            Some(finding.milder(Severity::Unknown).remedy(remedy))
        }
        _ => Some(finding),
    }
}

/// An endpoint with http:// of a registry that speaks https.
fn http_in_vain(facts: &RegistryFacts) -> Option<Finding> {
    let (file, configured) = facts.configured.as_ref()?;
    let is_plain = matches!(&facts.http, Ok(reply) if reply.registry);
    (configured.is_plain(&facts.registry) && !is_plain).then(|| {
        let message =
            format!("{file} configures {} for plain HTTP, but it speaks only HTTPS", facts.registry);
        let by = match &facts.ca {
            Some(_) => By::HttpsWithCa("/etc/rancher/k3s/registry-ca.crt".to_owned()),
            None => By::Https,
        };
        Finding::new(Code::RegistriesWithoutEffect, message).remedy(in_file(facts, by))
    })
}

/// The lines of registries.yaml.
fn in_file(facts: &RegistryFacts, by: By) -> Remedy {
    let lines = Registry { name: facts.registry.clone(), by }.config();
    Remedy::new(format!(
        "on each node, write this into /etc/rancher/k3s/registries.yaml and restart k3s:\n{}",
        lines.trim_end()
    ))
    .command(RESTART_K3S)
}

fn plain(facts: &RegistryFacts) -> Option<Finding> {
    let registry = &facts.registry;
    if facts.is_localhost() && facts.container().is_none() {
        return None;
    }
    let finding = |message: String| {
        Finding::new(Code::RegistryPlainHttp, message)
            .saw(place(facts, "https"), facts.https.to_string())
            .saw(place(facts, "http"), facts.http.as_ref().map_or_else(Clone::clone, ToString::to_string))
    };
    if let Some((file, configured)) = &facts.configured {
        let is_configured = configured.is_plain(registry) || configured.elsewhere(registry).is_some();
        let message = format!("{registry} speaks plain HTTP, and by {file} k3s asks it over HTTPS");
        return (!is_configured).then(|| finding(message).remedy(in_file(facts, By::Http)));
    }
    // Whether it is configured is not known here.
    let perhaps = |message: String| finding(message).milder(Severity::Warn);
    let Some((container, _)) = facts.container().filter(|(container, _)| container.is_of_k3d) else {
        let message = format!(
            "{registry} speaks plain HTTP, and k3s asks over HTTPS unless registries.yaml says otherwise"
        );
        return Some(perhaps(message).remedy(in_file(facts, By::Http)));
    };
    // k3d configures the nodes by itself.
    container.networks.is_empty().then(|| {
        let own = container.in_nodes();
        let remedy = Remedy::new(format!(
            "create the cluster with the registry, and k3d writes registries.yaml of its nodes; in the configuration \
            file of k3d: registries: {{use: [{own}]}}"
        ));
        perhaps(format!("no cluster of k3d uses the registry {}", container.name))
            .remedy(remedy.command(format!("k3d cluster create CLUSTER --registry-use {own}")))
    })
}

fn access(facts: &RegistryFacts, scheme: &str, reply: &Reply) -> Option<Finding> {
    let registry = &facts.registry;
    let is_token =
        reply.challenge.as_ref().is_some_and(|wanted| wanted.scheme.eq_ignore_ascii_case("bearer"));
    let severity = match reply.status {
        401 | 403 if reply.credentials == Sent::Yes => Severity::Fail,
        // Images that everyone may pull need none.
        401 if is_token => Severity::Unknown,
        401 | 403 => Severity::Warn,
        _ => return None,
    };
    let why = match (reply.credentials, facts.configured()) {
        (Sent::Yes, _) => "refuses the credentials of registries.yaml".to_owned(),
        (Sent::Unverified, _) => {
            "wants credentials, and those of registries.yaml were not sent: its certificate is not verified, or plain HTTP is not configured"
                .to_owned()
        }
        (Sent::OtherKind, Some(configured)) if configured.credentials == Some(Credentials::Token) => {
            "wants credentials; the token of registries.yaml was not tried".to_owned()
        }
        (Sent::OtherKind, _) => "issues tokens for a password, which was not tried".to_owned(),
        (_, Some(_)) => "wants credentials, and registries.yaml has none for it".to_owned(),
        (_, None) => "wants credentials".to_owned(),
    };
    let remedy = Remedy::new(format!(
        "give k3s a user name and a password in registries.yaml, readable by root only, and restart k3s; or give the pod an \
         imagePullSecret:\nconfigs:\n  \"{registry}\":\n    auth:\n      username: USER\n      password: PASSWORD"
    ))
    .command(format!("weaver registry check {registry} --registries /etc/rancher/k3s/registries.yaml"));
    let finding = Finding::new(Code::RegistryAccessDenied, format!("{registry} {why}"));
    Some(finding.saw(place(facts, scheme), reply.to_string()).milder(severity).remedy(remedy))
}

fn image(facts: &RegistryFacts, WantedImage { image, platform, found }: &WantedImage) -> Option<Finding> {
    let name = format!("{}/{image}", facts.registry);
    match found {
        ImageAvailability::Missing => {
            let message = format!("{} has no image `{image}`", facts.registry);
            let look = Remedy::new(
                "compare the tag with the tags that exist; the output of the push shows the name that was used",
            )
            .command(format!("weaver registry check {} --repository {}", facts.registry, image.repository));
            Some(Finding::new(Code::ImageNotFound, message).remedy(look))
        }
        ImageAvailability::Denied => {
            let message = format!("{} refuses access to `{image}`", facts.registry);
            Some(Finding::new(Code::RegistryAccessDenied, message))
        }
        ImageAvailability::Unusable(why) => {
            let message = format!("{name} cannot be pulled: {why}");
            let remedy = Remedy::new("push the image again, with a current program")
                .command(format!("skopeo copy docker-daemon:{image} docker://{name}"));
            Some(Finding::new(Code::ImageNotFound, message).remedy(remedy))
        }
        ImageAvailability::Unknown(_) => None,
        ImageAvailability::For(builds) => {
            let names: Vec<_> = builds.iter().map(|build| quoted_or(&build.to_string())).collect();
            let names = if names.is_empty() { "no platform".to_owned() } else { names.join(", ") };
            let remedy = Remedy::new(format!(
                "build it for {platform} and push it again; `docker push` from a PC pushes the PC's build only"
            ))
            .command(format!("docker buildx build --platform {platform} --push -t {name} ."));
            let of = |message: String| Finding::new(Code::ImageForOtherProcessor, message).remedy(remedy);
            match fit(platform, builds) {
                Fit::Native => None,
                // It runs, where the processor still can.
                Fit::Arm32 => Some(
                    of(format!("{name} has no build for {platform}; nodes pull its 32-bit arm build"))
                        .milder(Severity::Warn),
                ),
                Fit::None => Some(of(format!("{name} is for {names}, and not for {platform}"))),
            }
        }
    }
}
