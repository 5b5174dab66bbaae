//! What is said of images, then of registries.

use crate::finding::Code;
use crate::recognise::wording::{Wording, judged, says, tells};
use crate::recognise::{absent, images, programs, unreached};

pub(super) const ALL: &[(Code, &[Wording])] = &[
    (
        Code::ImageForOtherProcessor,
        &[
            says("no match for platform in manifest"),
            says("no matching manifest for linux/"),
            says("no image found in manifest list for architecture"),
            says("no image found in image index for architecture"),
            judged("exec format error", programs::not_executable),
            says("does not match the specified platform"),
            says("does not match the detected host platform"),
            says("does not match the expected platform"),
            judged("ld-linux-x86-64.so.2", programs::emulated),
            judged("code=dumped, signal=ill", programs::k3s_of_another),
            judged("code=dumped, status=4/ill", programs::k3s_of_another),
            judged("illegal instruction", programs::instruction),
            judged("unsupported architecture armv6", programs::not_installed),
        ],
    ),
    (
        Code::ImagePullsLimited,
        &[
            tells("you have reached your pull rate limit", images::limited),
            tells("you have reached your unauthenticated pull rate limit", images::limited),
            judged("toomanyrequests", images::too_many),
            judged("429 too many requests", images::too_many),
        ],
    ),
    (
        Code::ImageWithoutRegistry,
        &[
            judged("docker.io/library/", images::without_registry),
            judged("pull access denied for ", images::short_name_denied),
            tells("did not resolve to an alias and no unqualified-search registries", images::short_name),
            tells("short-name resolution enforced but cannot prompt", images::short_name),
        ],
    ),
    (
        Code::RegistryAccessDenied,
        &[
            tells("pull access denied", images::refused),
            tells("no basic auth credentials", images::refused),
            tells("requested access to the resource is denied", images::refused),
            tells("access to the requested resource is not authorized", images::refused),
            says("unable to retrieve auth token: invalid username/password"),
            tells("unable to retrieve some image pull secrets", images::pull_secret),
            judged("incorrect username or password", images::denied),
            judged("401 unauthorized", images::denied),
            judged("403 forbidden", images::denied),
            judged(": denied: denied", images::denied),
            judged("unauthorized: authentication required", images::denied),
            judged("insufficient_scope: authorization failed", images::denied),
            says("invalid status code from registry 401"),
            says("invalid status code from registry 403"),
        ],
    ),
    (
        Code::ImageNotFound,
        &[
            says("manifest unknown"),
            says("manifest_unknown"),
            says("repository name not known to registry"),
            judged("failed to resolve reference \"", absent::not_found),
            judged("failed to resolve image: ", absent::image_not_found),
            judged("failed to resolve ", absent::chart_not_found),
            judged("\" on source: ", absent::chart_not_found),
            judged("not found in repository ", absent::tag_not_found),
            judged("from daemon: manifest for ", absent::manifest_not_found),
            judged("not found: name unknown", absent::repository_unknown),
            says("unable to locate any tags in provided repository: oci://"),
        ],
    ),
    (
        Code::RegistryPlainHttp,
        &[
            judged("server gave http response to https client", images::plain_http),
            judged("first record does not look like a tls handshake", images::plain_http),
        ],
    ),
    (
        Code::RegistryUnreachable,
        &[
            judged("/v2/", unreached::registry),
            judged("/registry-v2/", unreached::registry),
            judged("/v1/_ping", unreached::registry),
            judged("/token?", unreached::tokens),
        ],
    ),
    (
        Code::ImageNotPulled,
        &[
            judged("imagepullbackoff", images::waiting),
            judged("errimagepull", images::waiting),
            judged("errimageneverpull", images::waiting),
            judged("invalidimagename", images::waiting),
            tells("is not present with pull policy of never", images::never_pulled),
            tells("error: errimageneverpull", images::never_pulled),
            says("back-off pulling image \""),
            judged("blob not found", images::incomplete),
            judged("content digest sha256:", images::incomplete),
            judged("failed to pull image \"", images::late),
            judged("failed to get sandbox image \"", absent::of_the_sandbox),
        ],
    ),
];
