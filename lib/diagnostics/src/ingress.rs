//! Annotations of an Ingress that Traefik, which k3s brings, ignores without a word: those of other
//! controllers, and those of its own first version. Pure.
//!
//! Sources: <https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress/>, the annotations of
//! ingress-nginx, and Traefik's migration guide from version 1.

use crate::{
    finding::{Code, Finding, Place, Remedy},
    text_file::TextFile,
    yaml_node::{self, Node, SyntaxError},
};

const NGINX: &str = "nginx.ingress.kubernetes.io/";
const TRAEFIK: &str = "traefik.ingress.kubernetes.io/";
const OTHERS: [&str; 5] =
    ["alb.ingress.kubernetes.io/", "haproxy.org/", "haproxy-ingress.github.io/", "konghq.com/", "nginx.org/"];

/// What has the effect with Traefik that the annotation has with ingress-nginx.
const INSTEAD: [(&str, &str); 12] = [
    ("rewrite-target", "a Middleware with `replacePathRegex`, or `stripPrefix`"),
    ("ssl-redirect", "a Middleware with `redirectScheme`, and `router.entrypoints: web,websecure`"),
    ("force-ssl-redirect", "a Middleware with `redirectScheme`, and `router.entrypoints: web,websecure`"),
    ("whitelist-source-range", "a Middleware with `ipAllowList`"),
    ("proxy-body-size", "a Middleware with `buffering`; without one Traefik has no limit"),
    ("auth-type", "a Middleware with `basicAuth`"),
    ("auth-secret", "a Middleware with `basicAuth`"),
    ("auth-url", "a Middleware with `forwardAuth`"),
    ("enable-cors", "a Middleware with `headers`"),
    ("limit-rps", "a Middleware with `rateLimit`"),
    ("backend-protocol", "on the Service: `traefik.ingress.kubernetes.io/service.serversscheme: https`"),
    ("affinity", "on the Service: `traefik.ingress.kubernetes.io/service.sticky.cookie: \"true\"`"),
];

/// Of Traefik 1, ignored since.
const OLD: [&str; 7] = [
    "rule-type",
    "rewrite-target",
    "redirect-entry-point",
    "frontend-entry-points",
    "whitelist-source-range",
    "auth-type",
    "request-modifier",
];

/// What is ignored in these manifests, each with its place. Other kinds are passed over.
///
/// # Errors
/// One of them is no YAML.
pub fn lint(file: &TextFile) -> Result<Vec<Finding>, SyntaxError> {
    let mut findings = Vec::new();
    let mut first_line = 0;
    for document in file.text.split_inclusive('\n').collect::<Vec<_>>().split(|line| line.trim_end() == "---")
    {
        let text = document.concat();
        let root = yaml_node::parse(&text)
            .map_err(|error| SyntaxError { line: error.line.map(|line| line + first_line), ..error })?;
        let all = match root.get("items") {
            Some(items) => items.items(),
            None => std::slice::from_ref(&root),
        };
        for object in all {
            findings.extend(of_object(&file.path, first_line, object));
        }
        first_line += document.len() as u64 + 1;
    }
    Ok(findings)
}

fn of_object(path: &str, first_line: u64, object: &Node) -> Vec<Finding> {
    let text = |node: Option<&Node>| node.and_then(Node::as_str).unwrap_or_default().to_owned();
    if text(object.get("kind")) != "Ingress" {
        return Vec::new();
    }
    let Some(metadata) = object.get("metadata") else { return Vec::new() };
    let name = [text(metadata.get("namespace")), text(metadata.get("name"))].join("/");
    let name = name.trim_start_matches('/');
    let annotations = metadata.get("annotations").map_or(&[][..], Node::entries);
    annotations
        .iter()
        .filter_map(|(key, _)| {
            let (why, remedy) = ignored(key.as_str()?)?;
            let place = Place::at(path, first_line + key.line, key.column);
            let annotation = key.as_str()?;
            let message = format!("Ingress {name}: Traefik ignores {annotation}: {why}");
            let finding = Finding::new(Code::IngressAnnotationIgnored, message);
            Some(finding.saw(place, annotation).remedy(Remedy::new(remedy)))
        })
        .collect()
}

/// Why it is ignored, and what to write instead.
fn ignored(annotation: &str) -> Option<(&'static str, String)> {
    if let Some(key) = annotation.strip_prefix(NGINX) {
        let instead = INSTEAD.iter().find(|(known, _)| *known == key).map(|(_, instead)| *instead);
        let remedy = instead.map_or_else(
            || "remove it, or look for a Middleware of Traefik that does the same".to_owned(),
            |instead| format!("instead: {instead}"),
        );
        return Some(("it is one of ingress-nginx", remedy));
    }
    if let Some(key) = annotation.strip_prefix(TRAEFIK) {
        let remedy = "write a Middleware, and name it in `traefik.ingress.kubernetes.io/router.middlewares`"
            .to_owned();
        return OLD.contains(&key).then_some(("it is one of Traefik 1", remedy));
    }
    let other = OTHERS.iter().any(|prefix| annotation.starts_with(prefix));
    other.then(|| ("it is one of another controller", "remove it, or install that controller".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(text: &str) -> Vec<String> {
        let findings = lint(&TextFile::new("/i.yaml", text)).unwrap();
        findings.into_iter().map(|finding| finding.evidence[0].to_string()).collect()
    }

    #[test]
    fn what_traefik_ignores_is_named_with_its_place() {
        let text = "\
apiVersion: v1
kind: Service
metadata:
  annotations: {nginx.ingress.kubernetes.io/x: y}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: app
  namespace: team-a
  annotations:
    nginx.ingress.kubernetes.io/rewrite-target: /
    traefik.ingress.kubernetes.io/router.entrypoints: websecure
    traefik.ingress.kubernetes.io/rule-type: PathPrefixStrip
    cert-manager.io/cluster-issuer: le
    konghq.com/strip-path: 'true'
";
        assert_eq!(
            places(text),
            [
                "/i.yaml:12:5: nginx.ingress.kubernetes.io/rewrite-target",
                "/i.yaml:14:5: traefik.ingress.kubernetes.io/rule-type",
                "/i.yaml:16:5: konghq.com/strip-path",
            ]
        );
        let finding = lint(&TextFile::new("/i", text)).unwrap().remove(0);
        assert!(finding.message.starts_with("Ingress team-a/app: Traefik ignores"), "{}", finding.message);
        assert!(finding.remedy.unwrap().explain.contains("replacePathRegex"));
    }

    #[test]
    fn a_list_as_kubectl_prints_it() {
        let text = "kind: List\nitems:\n- kind: Ingress\n  metadata:\n    name: a\n    annotations:\n      nginx.org/x: y\n- kind: Pod\n";
        assert_eq!(places(text), ["/i.yaml:7:7: nginx.org/x"]);
        assert_eq!(places(""), Vec::<String>::new());
        let error = lint(&TextFile::new("/i", "a: b\n---\nkind: [\n")).unwrap_err();
        assert!(error.line >= Some(3), "{error:?}");
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(kind: Ingress|metadata:|  annotations:|    nginx.org/x: y|---|items:|- |\n){0,20}") {
            let _ = lint(&TextFile::new("/i", text));
        }
    }
}
