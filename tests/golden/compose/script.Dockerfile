# mcqa, on the base that all servers share. Rendered; a Dockerfile in the server's own folder replaces it.
FROM gym-base:0123456789ab
COPY . ./
CMD ["gym-with-secrets", "python", "/usr/local/bin/gym-script", "resources_servers.mcqa", "app.py"]
