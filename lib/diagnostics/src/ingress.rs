//! Annotations of an Ingress that Traefik, which k3s brings, ignores without a word: those of other
//! controllers, and those of its own first version. An Ingress of another class is not Traefik's to read. Pure.
//!
//! Whose a class is, an IngressClass among the manifests says; without one only `traefik` is Traefik's. An
//! Ingress without a class gets the default one, which is Traefik's in k3s.
//!
//! Sources: <https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress/>, the annotations of
//! ingress-nginx, and Traefik's migration guide from version 1.

use std::collections::BTreeMap;

use crate::{
    finding::{Code, Finding, Place, Remedy},
    text_file::TextFile,
    yaml_node::{self, SyntaxError, YamlNode},
};

const NGINX: &str = "nginx.ingress.kubernetes.io/";
const TRAEFIK: &str = "traefik.ingress.kubernetes.io/";
const OTHERS: [&str; 8] = [
    "alb.ingress.kubernetes.io/",
    "appgw.ingress.kubernetes.io/",
    "haproxy.org/",
    "haproxy-ingress.github.io/",
    "ingress.citrix.com/",
    "konghq.com/",
    "nginx.com/",
    "nginx.org/",
];
/// Of no controller in particular: the first ones shared it, and older guides to k3d have it.
const SHARED: &str = "ingress.kubernetes.io/";

/// Where the class of an Ingress stood before it had a field, which wins over the field.
const CLASS: &str = "kubernetes.io/ingress.class";
/// What an IngressClass calls Traefik.
const CONTROLLER: &str = "traefik.io/ingress-controller";

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

/// How the annotations of Traefik go on since version 2; all others are of version 1.
const CURRENT: [&str; 2] = ["router.", "service."];

/// What was found in manifests.
#[derive(Debug, Default, PartialEq)]
pub struct IngressReport {
    /// What Traefik ignores, each with its place.
    pub findings: Vec<Finding>,
    /// Ingresses of other controllers by their class.
    pub others: BTreeMap<String, usize>,
}

/// What Traefik ignores in these manifests. Kinds that are none of Ingresses are passed over.
///
/// # Errors
/// One of them is no YAML.
pub fn lint(file: &TextFile) -> Result<IngressReport, SyntaxError> {
    let mut objects = Vec::new();
    let mut first_line = 0;
    for document in file.text.split_inclusive('\n').collect::<Vec<_>>().split(|line| line.trim_end() == "---")
    {
        let text = document.concat();
        let root = yaml_node::parse(&text)
            .map_err(|error| SyntaxError { line: error.line.map(|line| line + first_line), ..error })?;
        match root.get("items") {
            Some(items) => objects.extend(items.items().iter().map(|object| (first_line, object.clone()))),
            None => objects.push((first_line, root)),
        }
        first_line += document.len() as u64 + 1;
    }
    let of_kind =
        |kind: &'static str| objects.iter().filter(move |(_, object)| text(object.get("kind")) == kind);
    let traefiks: Vec<(&str, bool)> = of_kind("IngressClass")
        .map(|(_, class)| {
            let controller = text(class.get("spec").and_then(|spec| spec.get("controller")));
            (text(class.get("metadata").and_then(|metadata| metadata.get("name"))), controller == CONTROLLER)
        })
        .collect();
    let mut report = IngressReport::default();
    for (first_line, object) in of_kind("Ingress") {
        let of = |name: &str| traefiks.iter().find(|(class, _)| *class == name).map(|(_, is)| *is);
        match class(object).filter(|class| !of(class).unwrap_or(*class == "traefik")) {
            Some(class) => *report.others.entry(class.to_owned()).or_default() += 1,
            None => report.findings.extend(of_ingress(&file.path, *first_line, object)),
        }
    }
    Ok(report)
}

fn text(node: Option<&YamlNode>) -> &str {
    node.and_then(YamlNode::as_str).unwrap_or_default()
}

fn class(ingress: &YamlNode) -> Option<&str> {
    let annotations = ingress.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let by_annotation = annotations.and_then(|all| all.text(CLASS));
    by_annotation.or_else(|| ingress.get("spec")?.text("ingressClassName"))
}

fn of_ingress(path: &str, first_line: u64, object: &YamlNode) -> Vec<Finding> {
    let Some(metadata) = object.get("metadata") else { return Vec::new() };
    let name = [text(metadata.get("namespace")), text(metadata.get("name"))].join("/");
    let name = name.trim_start_matches('/');
    let annotations = metadata.get("annotations").map_or(&[][..], YamlNode::entries);
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
            || "remove the annotation, or look for a Middleware of Traefik that does the same".to_owned(),
            |instead| format!("instead: {instead}"),
        );
        return Some(("it is one of ingress-nginx", remedy));
    }
    if let Some(key) = annotation.strip_prefix(TRAEFIK) {
        let remedy = "write a Middleware, and name it in `traefik.ingress.kubernetes.io/router.middlewares`"
            .to_owned();
        let is_current = CURRENT.iter().any(|start| key.starts_with(start));
        return (!is_current).then_some(("it is one of Traefik 1", remedy));
    }
    if annotation.starts_with(SHARED) {
        let remedy = "remove the annotation: HTTP is not redirected unless a Middleware does it; for all else look for a Middleware";
        return Some(("it is of controllers that are gone", remedy.to_owned()));
    }
    let other = OTHERS.iter().any(|prefix| annotation.starts_with(prefix));
    other.then(|| {
        ("it is one of another controller", "remove the annotation, or install that controller".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(text: &str) -> Vec<String> {
        let report = lint(&TextFile::new("/i.yaml", text)).unwrap();
        report.findings.into_iter().map(|finding| finding.evidence[0].to_string()).collect()
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
    traefik.ingress.kubernetes.io/redirect-regex: ^http://(.*)
    traefik.ingress.kubernetes.io/service.passhostheader: 'true'
    cert-manager.io/cluster-issuer: le
    konghq.com/strip-path: 'true'
";
        assert_eq!(
            places(text),
            [
                "/i.yaml:12:5: nginx.ingress.kubernetes.io/rewrite-target",
                "/i.yaml:14:5: traefik.ingress.kubernetes.io/rule-type",
                "/i.yaml:15:5: traefik.ingress.kubernetes.io/redirect-regex",
                "/i.yaml:18:5: konghq.com/strip-path",
            ]
        );
        let finding = lint(&TextFile::new("/i", text)).unwrap().findings.remove(0);
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

    #[test]
    fn an_ingress_of_another_controller_is_not_traefiks_to_read() {
        let ingress =
            |class: &str| format!("kind: Ingress\nmetadata:\n  annotations:\n    nginx.org/x: y\n{class}");
        let kind = "---\nkind: IngressClass\nmetadata: {name: nginx}\nspec: {controller: traefik.io/ingress-controller}\n---\n\
                    kind: IngressClass\nmetadata: {name: traefik}\nspec: {controller: k8s.io/ingress-nginx}\n";
        for (class, with_kinds, found) in [
            ("", false, true),
            ("spec: {ingressClassName: traefik}\n", false, true),
            ("spec: {ingressClassName: nginx}\n", false, false),
            ("    kubernetes.io/ingress.class: nginx\nspec: {ingressClassName: traefik}\n", false, false),
            ("    kubernetes.io/ingress.class: traefik\n", false, true),
            ("spec: {ingressClassName: nginx}\n", true, true),
            ("spec: {ingressClassName: traefik}\n", true, false),
            ("spec: {ingressClassName: null}\n", true, true),
        ] {
            let file = ingress(class) + if with_kinds { kind } else { "" };
            let report = lint(&TextFile::new("/i", &*file)).unwrap();
            assert_eq!(
                (report.findings.len(), report.others.len()),
                (found.into(), (!found).into()),
                "{file}"
            );
        }
    }

    #[test]
    fn what_the_first_controllers_shared_is_ignored_too() {
        let text =
            "kind: Ingress\nmetadata:\n  annotations:\n    ingress.kubernetes.io/ssl-redirect: \"false\"\n";
        assert_eq!(places(text), ["/i.yaml:4:5: ingress.kubernetes.io/ssl-redirect"]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(kind: Ingress|metadata:|  annotations:|    nginx.org/x: y|---|items:|- |\n){0,20}") {
            let _ = lint(&TextFile::new("/i", text));
        }
    }
}
