ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG TORCH_INDEX_URL=
# Which formats of models can be loaded. The light image: demo,xgboost,onnx,traces
ARG EXTRAS=torch,sklearn,xgboost,onnx,traces
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/recourse
ENV PATH=/opt/recourse/bin:${PATH}
WORKDIR /src
COPY constraints.txt ./
# By itself, because it is the largest layer and changes least.
RUN case ",${EXTRAS}," in \
    *,torch,*) if [ -n "${TORCH_INDEX_URL}" ]; then pip install --index-url "${TORCH_INDEX_URL}" torch==2.13.0; \
        else pip install -c constraints.txt torch==2.13.0; fi ;; \
    esac
# The dependencies need the package's name and version, not its code.
COPY pyproject.toml README.md LICENSE ./
COPY app/__init__.py app/
RUN pip install -c constraints.txt ".[${EXTRAS}]"
COPY app app
RUN pip install --no-deps --force-reinstall .

FROM build AS sbom
# Which Python packages the image has, with their licences, as CycloneDX.
RUN python -m venv /opt/sbom && /opt/sbom/bin/pip install cyclonedx-bom==7.5.0 \
 && /opt/sbom/bin/cyclonedx-py environment --output-reproducible --output-format JSON \
    --output-file /opt/sbom.cdx.json /opt/recourse

FROM ${PYTHON_IMAGE}
# Nobody becomes another user in here, so no program may change its user.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin recourse \
 && install -d /srv/recourse \
 && install -d -o 10001 -g 10001 /srv/recourse/var
COPY --from=build /opt/recourse /opt/recourse
COPY --from=sbom /opt/sbom.cdx.json /opt/recourse/
COPY --chown=10001:10001 models_store /srv/recourse/models_store
ENV PATH=/opt/recourse/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    HOME=/tmp \
    RECOURSE_HOST=0.0.0.0 \
    RECOURSE_PORT=8000 \
    RECOURSE_STATE_DIR=/srv/recourse/var
WORKDIR /srv/recourse
USER 10001:10001
VOLUME ["/srv/recourse/models_store", "/srv/recourse/var"]
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]
CMD ["recourse", "serve"]
