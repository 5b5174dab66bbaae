//! Where the webhook is: a URL, or the Service in front of one that runs in the cluster.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ServiceReference;
use weaver_api::names::dns_label;

/// Where the webhook takes reviews.
const PATH: &str = "/convert";
const PORT: u16 = 443;

/// Where the API server has objects converted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Webhook {
    /// Must be `https`, with a path. Of a Service, how people call it.
    pub url: String,
    /// The Service that is in front of it, by which only the API server is sure to find the way.
    pub service: Option<Service>,
    /// CA certificates as PEM; the API server trusts no others for this URL.
    pub ca_bundle: String,
}

/// A Service, as `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    /// Its own port, whatever that of the pods behind it is.
    pub port: u16,
}

impl Service {
    /// The one name that the API server expects in the webhook's certificate.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The webhook behind it, which shows a certificate that one of these CAs has signed.
    pub fn webhook(self, ca_bundle: String) -> Webhook {
        let url = format!("https://{}:{}{PATH}", self.host(), self.port);
        Webhook { url, service: Some(self), ca_bundle }
    }

    /// As definitions name it.
    pub fn reference(&self) -> ServiceReference {
        ServiceReference {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            port: Some(self.port.into()),
            path: Some(PATH.into()),
        }
    }
}

impl From<ServiceReference> for Service {
    fn from(reference: ServiceReference) -> Self {
        let port = reference.port.and_then(|port| port.try_into().ok()).unwrap_or(PORT);
        Self { namespace: reference.namespace, name: reference.name, port }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// It is no `NAMESPACE/NAME[:PORT]`.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("use NAMESPACE/NAME, such as config-weaver/weaver-webhook, with :PORT if it is not {PORT}")]
pub struct NotAService;

impl FromStr for Service {
    type Err = NotAService;

    fn from_str(text: &str) -> Result<Self, NotAService> {
        let (namespace, rest) = text.split_once('/').ok_or(NotAService)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0).ok_or(NotAService)?),
            None => (rest, PORT),
        };
        if ![namespace, name].into_iter().all(|part| dns_label(part).is_ok()) {
            return Err(NotAService);
        }
        Ok(Self { namespace: namespace.into(), name: name.into(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_its_namespace_its_name_and_perhaps_a_port() {
        for (text, expected) in [
            ("config-weaver/weaver-webhook", Some(("config-weaver", "weaver-webhook", 443))),
            ("a/b:8443", Some(("a", "b", 8443))),
            ("weaver-webhook", None),
            ("/b", None),
            ("a/", None),
            ("a/b/c", None),
            ("a/b:", None),
            ("a/b:0", None),
            ("a/b:65536", None),
            ("A/b", None),
            ("a.b/c", None),
            ("https://a/b", None),
        ] {
            let found = text.parse::<Service>().ok();
            let found = found.as_ref().map(|one| (one.namespace.as_str(), one.name.as_str(), one.port));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn its_certificate_its_url_and_the_definitions_name_the_same() {
        let webhook = "a/b:8443".parse::<Service>().unwrap().webhook(String::new());
        assert_eq!(webhook.url, "https://b.a.svc:8443/convert");
        let service = webhook.service.unwrap();
        assert_eq!(service.host(), "b.a.svc");
        let reference = service.reference();
        assert_eq!((reference.namespace.as_str(), reference.name.as_str()), ("a", "b"));
        assert_eq!((reference.port, reference.path.as_deref()), (Some(8443), Some("/convert")));
        assert_eq!(Service::from(reference), service);
    }
}
