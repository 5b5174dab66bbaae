//! What clients print: of webhooks, of what a user types, of rights, of TLS; and of servers that do not answer.

use crate::finding::Code;
use crate::recognise::wording::{Wording, judged, says, tells};
use crate::recognise::{
    answers, datastore, helm, images, join, kubeconfig, rights, servers, services, tls, webhooks,
};

pub(super) const FIRST: &[(Code, &[Wording])] = &[
    // They wrap errors of every other kind.
    (Code::ConversionWebhookFailed, &[judged("conversion webhook for ", webhooks::ours)]),
    (
        Code::OtherWebhookFailed,
        &[
            judged("conversion webhook for ", webhooks::conversion_of_others),
            judged("failed calling webhook \"", webhooks::admission),
        ],
    ),
    (
        Code::DatastoreUnreachable,
        &[
            judged("creating storage endpoint: ", datastore::external),
            judged("building kine: ", datastore::external),
            judged("failed to ping connection: ", datastore::ping),
            judged("failed to ping database connection: ", datastore::ping),
            judged("remaining connection slots are reserved", datastore::external_of_kine),
            judged("too many connections", datastore::external_of_kine),
            judged("too many clients already", datastore::external_of_kine),
            judged("driver: bad connection", datastore::external_of_kine),
        ],
    ),
    (
        Code::ReleaseUnfinished,
        &[
            tells("another operation (install/upgrade/rollback) is in progress", helm::pending),
            tells("cannot re-use a name that is still in use", helm::name_in_use),
            tells("cannot reuse a name that is still in use", helm::name_in_use),
            tells("\" has no deployed releases", helm::not_deployed),
        ],
    ),
    (
        Code::K3dNodeRestarting,
        &[
            judged("is restarting for more than a minute", servers::k3d_node),
            judged("failed to get ready", servers::k3d_node),
            judged("failed waiting for log message", servers::k3d_node),
        ],
    ),
    (
        Code::ContainerEngineUnreadable,
        &[
            says("cannot connect to the docker daemon"),
            says("connect to the docker daemon socket"),
            says("connect to the docker api at"),
            says("couldn't connect to docker daemon"),
            says("error while fetching server api version"),
            says("cannot connect to podman"),
            says("%2fpipe%2fdocker"),
        ],
    ),
    (
        Code::K3dClusterMissing,
        &[says("no nodes found for given cluster"), says("no nodes found for cluster '")],
    ),
    // What a user types.
    (Code::ScopeImmutable, &[judged("spec.scope: invalid value", rights::field_is_immutable)]),
    (
        Code::TokenRequestNotAKind,
        &[says("no matches for kind \"tokenrequest\""), says("a resource type \"tokenrequest")],
    ),
    (Code::CascadeOrphanDeletes, &[says("\"orphan\" not found")]),
    (Code::RegistryNotAService, &[judged("services \"", images::registry_service)]),
    (
        Code::SanFlagRefused,
        &[
            says("flag provided but not defined: -tls-san"),
            says("unknown flag --tls-san"),
            says("unknown flag: --tls-san"),
        ],
    ),
    (
        Code::KubeconfigInsecureWithCa,
        &[says("specifying a root certificates file with the insecure flag is not allowed")],
    ),
    (
        Code::KubeconfigUnreadable,
        &[says("k3s.yaml: permission denied"), says("unable to read /etc/rancher/k3s/k3s.yaml")],
    ),
    (
        Code::KubeconfigUnusable,
        &[
            tells("unable to read client-cert ", kubeconfig::file_gone),
            tells("unable to read client-key ", kubeconfig::file_gone),
            tells("unable to read certificate-authority ", kubeconfig::file_gone),
            says("no context exists with the name"),
            judged("context \"", kubeconfig::context_gone),
            tells("context was not found for specified context", kubeconfig::default_context),
            tells("no server found for cluster", kubeconfig::default_context),
            says("error loading config file \""),
            says("unable to load root certificates: "),
            judged("getting credentials: exec: ", kubeconfig::plugin),
        ],
    ),
    (
        Code::KubeconfigExposed,
        &[
            tells("kubernetes configuration file is group-readable", kubeconfig::exposed),
            tells("kubernetes configuration file is world-readable", kubeconfig::exposed),
        ],
    ),
    (
        Code::DefinitionDiffers,
        &[
            judged("no matches for kind \"", rights::our_kind),
            judged("customresourcedefinitions.apiextensions.k8s.io \"", rights::our_definition),
            judged("a resource type \"", rights::our_resource),
        ],
    ),
    // Rights.
    (Code::MintingForbidden, &[tells("cannot create resource \"serviceaccounts/token\"", rights::minting)]),
    (Code::RightMissing, &[judged("system:serviceaccount:", rights::missing)]),
    (Code::RightsMissingForCheck, &[judged("is forbidden: user \"", rights::of_a_user)]),
    (Code::TokenTooShort, &[says("may not specify a duration less than 10 minutes")]),
    // Objects.
    (Code::FinalizerWaits, &[says("finalizers remaining: weaver.example.com/")]),
    (Code::OwnerInOtherNamespace, &[says("ownerrefinvalidnamespace")]),
    // A token before its time, before it is taken for one of another cluster.
    (
        Code::ClocksDiffer,
        &[
            says("prober found high clock drift"),
            says("the clock difference against peer "),
            says("service account token is not valid yet"),
            says("service account token is issued in the future"),
        ],
    ),
    // A client's credentials, before its certificate is taken for a server's.
    (
        Code::CredentialsRefused,
        &[
            judged("unable to authenticate the request", tls::of_a_client),
            says("you must be logged in to the server"),
            says("the server has asked for the client to provide credentials"),
            judged("\"reason\":\"unauthorized\"", answers::unauthorized),
            judged("apiexception: (401)", answers::library_unauthorized),
            judged("apiexception: unauthorized", answers::library_unauthorized),
            judged("unauthorized for url: ", answers::library_unauthorized),
            judged("http 401 : unauthorized", answers::library_unauthorized),
            judged("user \"system:anonymous\" cannot", answers::anonymous),
            judged("remote error: tls: expired certificate", tls::alert),
            judged("remote error: tls: certificate required", tls::alert),
            judged("remote error: tls: bad certificate", tls::alert),
            judged("remote error: tls: unknown certificate", tls::alert),
            judged("alert certificate expired", tls::alert),
            judged("alert_certificate_expired", tls::alert),
            judged("alert certificate required", tls::alert),
            judged("alert bad certificate", tls::alert),
            judged("alert unknown ca", tls::alert),
            judged("alert_unknown_ca", tls::alert),
            judged("received fatal alert: certificate", tls::alert),
            judged("received fatal alert: unknownca", tls::alert),
        ],
    ),
    // An agent asks the server whom it joins, before the certificate is taken for one that a user asks for.
    (
        Code::JoinNameNotServed,
        &[
            judged("failed to get ca certs: ", join::name_not_served),
            judged("failed to retrieve configuration from server: ", join::name_not_served),
            judged("ca cert validation failed: ", join::name_not_served),
        ],
    ),
    (
        Code::JoinOtherServer,
        &[
            says("token ca hash does not match the cluster ca certificate hash"),
            judged("ca cert validation failed: ", join::other_server),
            judged("failed to get ca certs: ", join::other_server),
            judged("failed to connect to proxy", join::other_tunnel),
        ],
    ),
    // TLS: first of registries, whose certificates are not k3s'.
    (Code::RegistryCertificateUntrusted, &[judged("x509: ", images::certificate)]),
    (
        Code::NameNotInCertificate,
        &[
            judged("certificate is valid for ", tls::mismatch),
            judged("certificate is not valid for ", tls::mismatch),
            judged("cannot validate certificate for ", tls::mismatch),
            judged("certificate not valid for name", tls::mismatch),
            judged("invalid peer certificate: notvalidforname", tls::mismatch),
            judged("invalid certificate: certnotvalidforname", tls::mismatch),
            judged("alternative certificate subject name matches target", tls::mismatch),
            judged("does not match target host name '", tls::mismatch),
            judged("does not match certificate's altnames: ", tls::mismatch),
            judged("no subject alternative dns name matching ", tls::mismatch),
            judged("no subject alternative names matching ip address ", tls::mismatch),
            judged("no name matching ", tls::mismatch),
            judged("' doesn't match ", tls::mismatch),
            judged("certificate's owner does not match hostname ", tls::mismatch),
            judged("no certificate subject alternative name matches", tls::mismatch),
            judged("num=62:", tls::mismatch),
            judged("the name in the certificate does not match the expected", tls::mismatch),
            judged("certificate relies on legacy common name field", tls::without_names),
        ],
    ),
    (
        Code::CertificateDates,
        &[
            judged("certificate has expired", tls::dates),
            judged("certificate expired", tls::dates),
            judged("certificate is not yet valid", tls::dates),
            judged("certificate not valid yet", tls::dates),
            judged("certificate not yet valid", tls::dates),
            judged("invalid peer certificate: expired", tls::dates),
            judged("invalid certificate: certexpired", tls::dates),
            judged("” certificate is expired", tls::dates),
            judged("certificateexpiredexception", tls::dates),
            judged("certificatenotyetvalidexception", tls::dates),
            judged("certificate chain uses expired certificate", tls::dates),
            judged("certificate chain uses not yet valid certificate", tls::dates),
        ],
    ),
    (
        Code::CertificateUntrusted,
        &[
            judged("certificate signed by unknown authority", tls::untrusted),
            judged("invalid peer certificate: unknownissuer", tls::untrusted),
            judged("invalid certificate: unknownissuer", tls::untrusted),
            judged("the certificate was not trusted", tls::untrusted),
            judged("” certificate is not trusted", tls::untrusted),
            judged("invalid peer certificate: badsignature", tls::untrusted),
            judged("self-signed certificate in certificate chain", tls::untrusted),
            judged("self signed certificate in certificate chain", tls::untrusted),
            judged("ssl certificate problem: self", tls::untrusted),
            judged("certificate verify failed: self", tls::untrusted),
            judged("num=18:self", tls::untrusted),
            judged("unable to get local issuer certificate", tls::untrusted),
            judged("unable to get issuer certificate", tls::untrusted),
            judged("unable to verify the first certificate", tls::untrusted),
            judged("depth_zero_self_signed_cert", tls::untrusted),
            judged("pkix path building failed", tls::untrusted),
            judged("unable to locally verify the issuer's authority", tls::untrusted),
            judged("self-signed certificate encountered", tls::untrusted),
            judged("the certificate issuer is unknown", tls::untrusted),
            judged("server certificate verification failed. cafile", tls::untrusted),
        ],
    ),
];

pub(super) const CONNECTIONS: &[(Code, &[Wording])] = &[
    // Before a name that is not found, or a server that is silent.
    (
        Code::ServiceNetworkUnreachable,
        &[
            judged(".1:443: ", services::unreachable),
            judged(":1]:443: ", services::unreachable),
            judged(":53: ", services::unreachable),
            judged("communications error to 10.43.0.10#53: ", services::unreachable),
            judged("communications error to 10.96.0.10#53: ", services::unreachable),
        ],
    ),
    (
        Code::OwnNameNotFound,
        &[says("sudo: unable to resolve host "), says("hostname: name or service not known")],
    ),
    (
        Code::NameNotFound,
        &[
            tells("no such host", servers::not_found),
            tells("server misbehaving", servers::not_found),
            judged(": try again", servers::resolver_gives_up),
            tells("could not resolve host", servers::not_found),
            judged("could not resolve '", servers::apt_not_found),
            tells("failed to lookup address information", servers::not_found),
            tells("name or service not known", servers::not_found),
            tells("temporary failure in name resolution", servers::not_found),
            tells("temporary failure resolving '", servers::not_found),
            tells("unable to resolve host address ", servers::not_found),
            tells("getaddrinfo enotfound ", servers::not_found),
            tells("getaddrinfo eai_again ", servers::not_found),
            tells("nodename nor servname provided", servers::not_found),
            judged("unknownhostexception: ", servers::java_not_found),
            judged("bad address '", servers::busybox_not_found),
            judged(": nxdomain", servers::nslookup_not_found),
        ],
    ),
    (
        Code::KubeconfigFallback,
        &[
            judged("localhost:8080", servers::fallback_server),
            judged("host='localhost', port=80", servers::fallback_server_in_python),
            says("no configuration has been provided, try setting kubernetes_master"),
            says("missing or incomplete configuration info"),
            says("unable to locate k8s cluster configuration"),
            says("invalid kube-config file. no configuration found"),
        ],
    ),
    (
        Code::KubeconfigUnspecified,
        &[
            judged("0.0.0.0:", servers::listening_address),
            judged("the connection to the server 127.", servers::this_machine),
            judged("the connection to the server localhost:", servers::this_machine),
            judged("the connection to the server [::1]:", servers::this_machine),
        ],
    ),
    (
        Code::ServerPlainHttp,
        &[
            judged("server gave http response to https client", answers::plain_http),
            judged("first record does not look like a tls handshake", answers::plain_http),
            judged("wrong version number", answers::plain_http),
            judged("wrong_version_number", answers::plain_http),
            judged("received corrupt message of type invalidcontenttype", answers::plain_http),
        ],
    ),
    (
        Code::ConnectionRefused,
        &[
            judged("the connection to the server ", servers::refused),
            judged("connect: connection refused", servers::refused_to_client),
            judged("actively refused it", servers::refused_to_client),
            judged("connect econnrefused ", answers::refused),
            judged("[errno 111] connection refused", answers::refused),
            judged("connection refused (os error 111)", answers::refused),
            judged("port 6443: connection refused", answers::refused),
            judged("port 6443 after ", answers::refused),
        ],
    ),
];

pub(super) const LAST: &[(Code, &[Wording])] = &[(
    Code::ServerSilent,
    &[
        judged("tls handshake timeout", servers::silent),
        judged("i/o timeout", servers::silent),
        judged("no route to host", servers::silent),
        judged("network is unreachable", servers::silent),
        judged("context deadline exceeded", servers::silent),
        judged("client.timeout exceeded while awaiting headers", servers::silent),
        judged("connected party did not properly respond", servers::silent),
        judged("to the server: eof", servers::silent),
        judged("\": eof", servers::silent),
        judged("proxyconnect tcp: ", servers::silent),
        judged("http2: client connection lost", servers::silent),
        judged("connection reset by peer", servers::silent),
        judged("timed out. (connect timeout=", answers::silent),
        judged("connect etimedout ", answers::silent),
        judged("connect ehostunreach ", answers::silent),
        judged("curl: (28) ", answers::silent),
    ],
)];
